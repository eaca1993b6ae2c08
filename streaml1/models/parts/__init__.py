"""What models stand on beside `base.py`.

| file | what | whose |
|---|---|---|
| `own_rates.py` | no `lr` and no `schedule` | rules that have rates of their own |
| `classes.py` | the labels there are, declared or met | many labels |
| `outputs.py` | the memory that probabilities of many labels go to | many labels |
| `frozen.py` | a model that only predicts, and is never changed | all |
"""
