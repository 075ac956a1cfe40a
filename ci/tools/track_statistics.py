"""The statistics of ci/track: the Mann-Whitney U test, its interval, and Holm's correction.

The test asks whether values of one sample tend to be greater than those of the other, without assuming a
distribution. The interval holds the shifts (here of logarithms, so ratios) that the test would not reject.
p values are two-sided."""

import functools
import math
import statistics

LARGEST_EXACT = 50  # values a sample; beyond, and with ties, a normal approximation is used


@functools.lru_cache(maxsize=None)
def arrangements(n, m):
    """How many of the arrangements of n and m values have U = 0, 1, ... n*m."""
    # Multiplied and divided by (1 - x^i) in turn: the coefficients of a Gaussian binomial.
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, n * m + 1):
            counts[u] += counts[u - i]
    return tuple(counts)


def u_of(a, b):
    """Pairs in which b's value is the greater one; ties count half."""
    return sum((y > x) + 0.5 * (y == x) for x in a for y in b)


def deviation(a, b):
    """The deviation of U if both samples have one distribution; ties make it smaller."""
    n, m = len(a), len(b)
    values = list(a) + list(b)
    ties = sum(count**3 - count for count in (values.count(value) for value in set(values)))
    all_values = n + m
    return math.sqrt(n * m / 12 * (all_values + 1 - ties / (all_values * (all_values - 1))))


def mann_whitney(a, b):
    """The two-sided p value of a and b having come from one distribution."""
    n, m = len(a), len(b)
    u = u_of(a, b)
    farther = max(u, n * m - u)
    if max(n, m) <= LARGEST_EXACT and len(set(a) | set(b)) == n + m:
        counts = arrangements(n, m)
        return min(1.0, 2 * sum(counts[int(farther):]) / sum(counts))
    spread = deviation(a, b)
    if spread == 0:
        return 1.0
    return min(1.0, 2 * (1 - statistics.NormalDist().cdf((farther - n * m / 2 - 0.5) / spread)))


def least_p(n, m):
    """The least p value of mann_whitney(), for samples that do not overlap."""
    return 2 / math.comb(n + m, n)


def shift_interval(a, b, level=0.95):
    """The shift from a to b: the median of all pairs' differences, and its interval."""
    differences = sorted(y - x for x in a for y in b)
    n, m = len(a), len(b)
    tail = (1 - level) / 2
    if max(n, m) <= LARGEST_EXACT:
        counts = arrangements(n, m)
        limit = tail * sum(counts)
        cut, below = 0, counts[0]
        while below < limit:
            cut += 1
            below += counts[cut]
    else:
        cut = int(n * m / 2 + statistics.NormalDist().inv_cdf(tail) * math.sqrt(n * m * (n + m + 1) / 12))
    cut = max(1, cut)
    return statistics.median(differences), differences[cut - 1], differences[-cut]


def ratio_interval(a, b, level=0.95):
    """The ratio b / a: of the medians, with the test's interval."""
    _, low, high = shift_interval([math.log(x) for x in a], [math.log(y) for y in b], level)
    return statistics.median(b) / statistics.median(a), math.exp(low), math.exp(high)


def holm(p_values):
    """Corrects each p value for their number; the result is at least that of any smaller one."""
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - place)))
        corrected[index] = largest
    return corrected
