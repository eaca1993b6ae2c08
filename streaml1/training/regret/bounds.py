r"""Bounds on regret and on the distance from the optimum, from the papers.

The solvers and learners do not use them: they are for tests, demos and experiments. Each holds
under the conditions in its docstring; docs/regret.md compares them with measurements. Sources:

- Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting. NIPS.
- Hazan, E., Agarwal, A. and Kale, S., 2007. Logarithmic regret algorithms for online convex
  optimization. Machine Learning 69.
- Kivinen, J. and Warmuth, M., 1997. Exponentiated gradient versus gradient descent for linear
  predictors. Information and Computation 132.
- Langford, J., Li, L. and Zhang, T., 2009. Sparse online learning via truncated gradient. JMLR 10.
- Shalev-Shwartz, S. and Tewari, A., 2009. Stochastic methods for l1 regularized loss minimization.
  ICML.
- Shalev-Shwartz, S. and Zhang, T., 2013. Stochastic dual coordinate ascent methods for regularized
  loss minimization. The talk "Optimization and Big Data", Edinburgh.
- Zinkevich, M., 2003. Online convex programming and generalized infinitesimal gradient ascent.
  ICML.
"""

from __future__ import annotations

import math

__all__ = [
    "eg_rate",
    "eg_regret",
    "fobos_excess",
    "fobos_regret",
    "gradient_regret",
    "logarithmic_regret",
    "scd_excess",
    "sdca_dual",
    "sdca_gap",
    "sdca_steps",
    "smidas_rate",
    "smidas_regret",
    "truncated_gradient_excess",
]


def gradient_regret(T: int, D: float, G: float, c: float = 1.0) -> float:
    r"""Return the regret bound of projected gradient steps, Zinkevich's Theorem 1.

    It is $D^2 \sqrt T / 2c + c G^2 (\sqrt T - 1/2)$; the paper has c = 1. It holds for
    `L1BallClassifier` without an intercept.

    Parameters
    ----------
    T
        Steps, with the learning rate $\eta_t = c / \sqrt t$.
    D
        Diameter of the set that is projected on (2 radius for an l1 ball), or another upper bound
        on $|w_t - w^*|_2$.
    G
        Upper bound on the l2 norm of a subgradient.
    c
        Factor of the learning rate: `lr` of the schedule "invsqrt".

    Examples
    --------
    >>> gradient_regret(10_000, D=2.0, G=1.0, c=2.0)
    299.0
    """
    return D * D * math.sqrt(T) / (2.0 * c) + c * G * G * (math.sqrt(T) - 0.5)


def logarithmic_regret(T: int, l2: float, G: float) -> float:
    r"""Return the regret bound for strongly convex losses, Theorem 1 of Hazan et al.

    It is $G^2 (1 + \log T) / 2 \lambda$ for steps $1 / (\lambda t)$ along subgradients of the loss
    with its penalty $\lambda |w|^2 / 2$, as `PegasosClassifier` makes them without an intercept.

    Parameters
    ----------
    T
        Steps.
    l2
        Strength of the penalty, $\lambda$.
    G
        Upper bound on the l2 norm of those subgradients: $1 + \sqrt\lambda$ for the hinge, rows no
        longer than 1 and weights in Pegasos's ball.
    """
    return G * G * (1.0 + math.log(T)) / (2.0 * l2)


def eg_rate(T: int, d: int, G: float) -> float:
    r"""Return the constant learning rate that minimizes `eg_regret`.

    It is $\sqrt{2 \log(2d) / T} / G$. Parameters are those of `eg_regret`.
    """
    return math.sqrt(2.0 * math.log(2.0 * d) / T) / G


def eg_regret(T: int, radius: float, d: int, G: float, eta: float | None = None) -> float:
    r"""Return the regret bound of EG+- for losses of bounded slope.

    It is $U (\log(2d) / \eta + \eta T G^2 / 2)$. The first term is the relative entropy of Kivinen
    & Warmuth's proofs, which is at most $\log 2d$ from equal weights; the second is Hoeffding's
    inequality in each step. At the best learning rate the sum is $U G \sqrt{2 T \log 2d}$.

    Parameters
    ----------
    T
        Steps, all with the learning rate eta.
    radius, d
        U and the number of features: `radius` and `n_features` of `EGClassifier`.
    G
        Upper bound on the absolute values of a gradient.
    eta
        The constant learning rate; None: the best.

    Examples
    --------
    >>> round(eg_regret(10_000, radius=10.0, d=1000, G=1.0), 1)
    3898.9
    """
    eta = eg_rate(T, d, G) if eta is None else eta
    return radius * (math.log(2.0 * d) / eta + 0.5 * eta * T * G * G)


def truncated_gradient_excess(
    T: int, w2: float, eta: float, B: float, A: float = 0.0
) -> tuple[float, float]:
    r"""Return the bound of truncated gradient, the theorem of sparse online regret, as (a, b).

    The mean of the loss and of gravity times $|w_t|_1$ is at most a + b times that of any fixed w*,
    without a threshold. Here $a = (\eta B / 2 + |w^*|_2^2 / 2 \eta T) / q$, $b = 1 / q$, and
    $q = 1 - \eta A / 2$ must be positive. If A is 0, T a bounds the regret.

    Parameters
    ----------
    T
        Steps, all with the learning rate eta.
    w2
        $|w^*|_2$.
    eta
        The constant learning rate.
    B, A
        $|g|^2 \le A f(w) + B$ for all subgradients g of a loss f. A is 0 for losses of bounded
        slope.

    Raises
    ------
    ValueError
        If eta is too large for q to be positive.
    """
    q = 1.0 - 0.5 * eta * A
    if q <= 0.0:
        raise ValueError(f"eta={eta:g} is too large for a bound: q must be > 0, got {q:.3g}")
    return (0.5 * eta * B + w2 * w2 / (2.0 * eta * T)) / q, 1.0 / q


def fobos_regret(T: int, D: float, G: float, c: float) -> float:
    r"""Return the regret bound of FoBoS, Theorem 3: $G D + (D^2 / 2c + 7 G^2 c) \sqrt T$.

    Parameters
    ----------
    T
        Steps, with the learning rate $\eta_t = c / \sqrt t$.
    D
        Upper bound on $|w_t - w^*|_2$ in all steps.
    G
        Upper bound on the l2 norm of a subgradient of a loss $f_t$, or of the penalty r.
    c
        Factor of the learning rate: `lr` of the schedule "invsqrt".

    Examples
    --------
    >>> fobos_regret(10_000, D=1.0, G=1.0, c=0.25)
    376.0
    """
    return G * D + (D * D / (2.0 * c) + 7.0 * G * G * c) * math.sqrt(T)


def fobos_excess(T: int, D: float, G: float, A: float = 0.0, c: float = 4.0) -> tuple[float, float]:
    r"""Return the bound of FoBoS, Corollary 2, as (a, b).

    The mean of $f(w_t) + r(w_t)$ is at most a + b (f + r)(w*), for the constant learning rate
    $\eta = D / (\sqrt{7T} G)$. Here $a = 3 D G / (\sqrt T q)$, $b = 1 / q$, and
    $q = 1 - c A D / (G \sqrt{7 T})$ must be positive. The 3 is $\sqrt 7$ rounded up.

    Parameters
    ----------
    T
        Steps.
    D
        Upper bound on $|w^*|_2$.
    G, A
        $|g|^2 \le A f(w) + G^2$ for all subgradients g; A is 0 for losses of bounded slope.
    c
        At most 4.

    Raises
    ------
    ValueError
        If T is too small for q to be positive.
    """
    q = 1.0 - c * A * D / (G * math.sqrt(7.0 * T))
    if q <= 0.0:
        raise ValueError(f"T={T} is too few steps for a bound: q must be > 0, got {q:.3g}")
    return 3.0 * D * G / (math.sqrt(T) * q), 1.0 / q


def smidas_rate(T: int, w1: float, p: float, d: int, rho: float = 1.0) -> float:
    r"""Return the constant learning rate that minimizes `smidas_regret`.

    It is $|w^*|_1 / \sqrt{(p-1) d^{2/p} \rho T}$. Parameters are those of `smidas_regret`.
    """
    return w1 / math.sqrt((p - 1.0) * math.pow(d, 2.0 / p) * rho * T)


def smidas_regret(
    T: int, w1: float, p: float, d: int, rho: float = 1.0, eta: float | None = None
) -> float:
    r"""Return the regret bound of SMIDAS, Theorem 2, with the constants of its proof.

    It is $|w^*|_1^2 / 2\eta + \eta T (p - 1) d^{2/p} \rho / 2$: the last inequality of the proof,
    summed over T steps, with $\Psi(w_1) = |w^*|_q^2 / 2 \le |w^*|_1^2 / 2$ and $w_1 = 0$. At the
    best learning rate it is $|w^*|_1 \sqrt{(p-1) d^{2/p} \rho T}$. With p = 2 log d, where
    $d^{2/p} = e$, this divided by T is the theorem's $O(|w^*|_1 \sqrt{\log(d) / T})$.

    Parameters
    ----------
    T
        Steps, all with the learning rate eta.
    w1
        $|w^*|_1$.
    p, d
        Parameter of the norm, and number of features; all values are between -1 and 1.
    rho
        Upper bound on the squared derivative of a loss: 1 for the logistic loss and the hinges.
    eta
        The constant learning rate; None: the best.

    Examples
    --------
    >>> round(smidas_regret(10_000, w1=2.0, p=2 * math.log(1000), d=1000), 1)
    1180.4
    """
    eta = smidas_rate(T, w1, p, d, rho) if eta is None else eta
    squares = (p - 1.0) * math.pow(d, 2.0 / p) * rho
    return w1 * w1 / (2.0 * eta) + eta * T * squares / 2.0


def scd_excess(steps: int, coordinates: int, beta_w2: float, at_zero: float) -> float:
    r"""Return the bound of SCD, Theorem 1, on the expected distance from the optimum.

    It is $k (\beta |w^*|_2^2 + 2 R(0)) / 2T$ after T steps from 0, each at one of k coordinates
    drawn uniformly. The paper has k = 2d, one coordinate for each sign of a weight; for signed
    weights k = d.

    Parameters
    ----------
    steps, coordinates
        T and k.
    beta_w2
        $\beta |w^*|_2^2$, or with a curvature bound for each coordinate $\sum_j \beta_j w_j^2$.
    at_zero
        The objective at zero weights, R(0).
    """
    return coordinates * (beta_w2 + 2.0 * at_zero) / (2.0 * steps)


def sdca_dual(
    steps: int, n: int, l2: float, gamma: float, radius: float = 1.0, start: float = 1.0
) -> float:
    r"""Return the bound of SDCA on the expected $D(\alpha^*) - D(\alpha^{(t)})$ for smooth losses.

    It is $(1 - s/n)^t$ times the value at the start. With
    $s = \lambda n \gamma / (R^2 + \lambda n \gamma)$ the G of the main lemma is at most 0, so that
    each step closes s/n of the gap, which is at least the suboptimality of the dual.

    Parameters
    ----------
    steps, n
        Steps t at examples drawn uniformly from n.
    l2, gamma
        Strength of the penalty; the loss is 1/gamma-smooth, with gamma 4 for the logistic loss, 1
        for the squared loss, and its width for a smoothed hinge.
    radius
        Upper bound on $|x_i|_2$.
    start
        $D(\alpha^*) - D(0)$; at most 1 for losses that are at most 1 at 0.
    """
    s = l2 * n * gamma / (radius * radius + l2 * n * gamma)
    return start * math.exp(steps * math.log1p(-s / n))


def sdca_gap(steps: int, n: int, l2: float, s: float, G: float, rise: float) -> float:
    r"""Return the bound of SDCA on the expected gap at a random one of the last steps.

    It is $n / (s (T - T_0)) E[D(T) - D(T_0)] + s G / (2 \lambda n)$, from the slide "Proof Idea".

    Parameters
    ----------
    steps
        $T - T_0$.
    n, l2
        Number of examples, and strength of the penalty.
    s
        Between 0 and 1.
    G
        Upper bound on the lemma's $G^{(t)}$: $4 L^2 R^2$ for a loss of slope at most L.
    rise
        Increase of the dual in those steps.
    """
    return n / (s * steps) * rise + s * G / (2.0 * l2 * n)


def sdca_steps(
    n: int, l2: float, epsilon: float, gamma: float | None = None, L: float | None = None
) -> float:
    r"""Return the steps of SDCA until the gap is epsilon, up to constants and logarithms.

    From the slide "Our results": $(n + 1 / \lambda \gamma) \log(1 / \epsilon)$ for a
    1/gamma-smooth loss, $n + L / (\lambda \epsilon)$ for a loss of slope at most L.

    Raises
    ------
    ValueError
        Unless exactly one of gamma and L is given.
    """
    if (gamma is None) == (L is None):
        raise ValueError("sdca_steps needs gamma for a smooth loss, or else L: give one of them")
    if gamma is not None:
        return (n + 1.0 / (l2 * gamma)) * math.log(1.0 / epsilon)
    assert L is not None
    return n + L / (l2 * epsilon)
