r"""What the papers promise, to lay beside what is measured: bounds on regret and on the optimum.

No run takes them: they are for tests, demos and whoever measures one. Each holds under the
conditions it names; docs/regret.md has them beside what is measured. Sources:

- Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting. NIPS.
- Shalev-Shwartz, S. and Tewari, A., 2009. Stochastic methods for l1 regularized loss minimization.
  ICML.
- Shalev-Shwartz, S. and Zhang, T., 2013. Stochastic dual coordinate ascent methods for regularized
  loss minimization. The talk "Optimization and Big Data", Edinburgh.
"""

from __future__ import annotations

import math

__all__ = [
    "fobos_excess",
    "fobos_regret",
    "scd_excess",
    "sdca_dual",
    "sdca_gap",
    "sdca_steps",
    "smidas_rate",
    "smidas_regret",
]


def fobos_regret(T: int, D: float, G: float, c: float) -> float:
    r"""FoBoS, Theorem 3: $G D + (D^2 / 2c + 7 G^2 c) \sqrt T$.

    Parameters
    ----------
    T
        Steps, with the rate $\eta_t = c / \sqrt t$.
    D
        The most that $|w_t - w^*|_2$ is in any step.
    G
        The most that the l2 norm of a subgradient of a loss $f_t$, or of the penalty r, is.
    c
        The rate's factor: `lr` of the schedule "invsqrt".

    Examples
    --------
    >>> fobos_regret(10_000, D=1.0, G=1.0, c=0.25)
    376.0
    """
    return G * D + (D * D / (2.0 * c) + 7.0 * G * G * c) * math.sqrt(T)


def fobos_excess(T: int, D: float, G: float, A: float = 0.0, c: float = 4.0) -> tuple[float, float]:
    r"""FoBoS, Corollary 2: (a, b), and the mean of $f(w_t) + r(w_t)$ is at most a + b (f + r)(w*).

    $a = 3 D G / (\sqrt T q)$ and $b = 1 / q$, where $q = 1 - c A D / (G \sqrt{7 T})$ has to be
    above 0. It is for the constant rate $\eta = D / (\sqrt{7T} G)$. The square root of 7 would do
    for the 3.

    Parameters
    ----------
    T, D, G
        Steps; the most that $|w^*|_2$ is; with A, $|g|^2 \le A f(w) + G^2$ for all subgradients.
    A
        0 for losses of bounded slope.
    c
        At most 4.

    Raises
    ------
    ValueError
        Where T is too small for q to be above 0.
    """
    q = 1.0 - c * A * D / (G * math.sqrt(7.0 * T))
    if q <= 0.0:
        raise ValueError(f"T={T} is too few steps for a bound: {q:.3g} must be above 0")
    return 3.0 * D * G / (math.sqrt(T) * q), 1.0 / q


def smidas_rate(T: int, w1: float, p: float, d: int, rho: float = 1.0) -> float:
    r"""The constant rate at which `smidas_regret` is least.

    $|w^*|_1 / \sqrt{(p-1) d^{2/p} \rho T}$. Parameters are those of `smidas_regret`.
    """
    return w1 / math.sqrt((p - 1.0) * math.pow(d, 2.0 / p) * rho * T)


def smidas_regret(
    T: int, w1: float, p: float, d: int, rho: float = 1.0, eta: float | None = None
) -> float:
    r"""SMIDAS, Theorem 2, as a regret and with the constants of its proof.

    $|w^*|_1^2 / 2\eta + \eta T (p - 1) d^{2/p} \rho / 2$, from the sum of the proof's last
    inequality over T steps, in which $\Psi(w_1) = |w^*|_q^2 / 2 \le |w^*|_1^2 / 2$ and
    $w_1 = 0$. At the best rate that is $|w^*|_1 \sqrt{(p-1) d^{2/p} \rho T}$, and with p = 2 log d,
    where $d^{2/p} = e$, over T the theorem's $O(|w^*|_1 \sqrt{\log(d) / T})$.

    Parameters
    ----------
    T
        Steps, all with the rate eta.
    w1
        $|w^*|_1$.
    p, d
        Of the norm, and how many features; all values of them are from -1 to 1.
    rho
        The most that the squared derivative of a loss is: 1 for the logistic loss and the hinges.
    eta
        The constant rate; None: the best.

    Examples
    --------
    >>> round(smidas_regret(10_000, w1=2.0, p=2 * math.log(1000), d=1000), 1)
    1180.4
    """
    eta = smidas_rate(T, w1, p, d, rho) if eta is None else eta
    squares = (p - 1.0) * math.pow(d, 2.0 / p) * rho
    return w1 * w1 / (2.0 * eta) + eta * T * squares / 2.0


def scd_excess(steps: int, coordinates: int, beta_w2: float, at_zero: float) -> float:
    r"""SCD, Theorem 1: $k (\beta |w^*|_2^2 + 2 R(0)) / 2T$, what is left to the optimum.

    In expectation, after T steps from 0 at one of k coordinates drawn uniformly. The paper has 2d
    of them, a weight of each sign; here a step moves a weight of any sign, and k = d.

    Parameters
    ----------
    steps, coordinates
        T and k.
    beta_w2
        $\beta |w^*|_2^2$; with a bound of the curvature for each coordinate $\sum_j \beta_j w_j^2$.
    at_zero
        The objective of zero weights.
    """
    return coordinates * (beta_w2 + 2.0 * at_zero) / (2.0 * steps)


def sdca_dual(
    steps: int, n: int, l2: float, gamma: float, radius: float = 1.0, start: float = 1.0
) -> float:
    r"""SDCA, of the main lemma for smooth losses: $(1 - s/n)^t$ times what was left at the start.

    It bounds the expected $D(\alpha^*) - D(\alpha^{(t)})$. With $s = \lambda n \gamma / (R^2 +
    \lambda n \gamma)$ the lemma's G is not above 0, so each step closes s/n of the gap, which is
    not below what is left of the dual.

    Parameters
    ----------
    steps, n
        Steps t at examples drawn uniformly from n.
    l2, gamma
        The strength, and the loss is 1/gamma-smooth: 4 for the logistic loss, 1 for the squared
        one, the width of a smoothed hinge.
    radius
        The most that $|x_i|_2$ is.
    start
        $D(\alpha^*) - D(0)$; at most 1 for losses that are at most 1 at 0.
    """
    s = l2 * n * gamma / (radius * radius + l2 * n * gamma)
    return start * math.exp(steps * math.log1p(-s / n))


def sdca_gap(steps: int, n: int, l2: float, s: float, G: float, rise: float) -> float:
    r"""SDCA, the slide "Proof idea": $n / (s (T - T_0)) E[D(T) - D(T_0)] + s G / (2 \lambda n)$.

    It bounds the expected duality gap at a step drawn from the last ones.

    Parameters
    ----------
    steps
        $T - T_0$.
    n, l2
        Examples, and the strength.
    s
        From 0 to 1.
    G
        The most that the lemma's $G^{(t)}$ is: for a loss of slope at most L, $4 L^2 R^2$.
    rise
        What the dual has risen by in those steps.
    """
    return n / (s * steps) * rise + s * G / (2.0 * l2 * n)


def sdca_steps(
    n: int, l2: float, epsilon: float, gamma: float | None = None, L: float | None = None
) -> float:
    r"""SDCA, the slide "Our results": steps until the gap is epsilon, constants aside.

    And logarithms: $(n + 1 / \lambda \gamma) \log(1 / \epsilon)$ for a 1/gamma-smooth loss,
    $n + L / (\lambda \epsilon)$ for one of slope at most L.

    Raises
    ------
    ValueError
        Unless one of gamma and L is given.
    """
    if (gamma is None) == (L is None):
        raise ValueError("sdca_steps is of a smooth loss or of one of bounded slope: give one")
    if gamma is not None:
        return (n + 1.0 / (l2 * gamma)) * math.log(1.0 / epsilon)
    assert L is not None
    return n + L / (l2 * epsilon)
