"""Writes oracle.json: what the package must compute, by other routes than its own.

Moments and regressions are those of the units themselves, in exact fractions; the boundary is
where the mixture of likelihood ratios, integrated numerically, reaches 1/alpha (Robbins 1970;
arXiv 2103.06476, proof of theorem 2.2); the interval for a quotient is found by bisection; the
Bayes factor is the product of what a Polya urn predicts of one unit after the other (arXiv
2011.03567, section 2); the mean of likelihood ratios is computed with 60 digits.

Run: python3 oracle.py > oracle.json
"""
import json
import math
from decimal import Decimal, getcontext
from fractions import Fraction as F

getcontext().prec = 60


def units(stratum, arm, n):
    """Units whose numbers are exact in both languages."""
    x = 2 * stratum + arm + 1
    out = []
    for _ in range(n):
        u = []
        for _ in range(4):
            x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
            u.append(x >> 33)  # 31 bits
        d = 1 + u[1] % 9
        out.append(dict(
            y=(u[0] * u[0] >> 52) + arm * 40, rate=int(u[2] % 100 < 7 + 5 * arm),
            d=d, part=u[0] % (d + 1), past=(u[0] >> 22) + u[2] % 300, has=int(u[3] % 10 < 6)))
    return out


SIZES = [(700, 350), (400, 900), (3, 1), (0, 5)]
STRATA = [tuple(units(s, a, n) for a, n in enumerate(sizes)) for s, sizes in enumerate(SIZES)]


def mean(values):
    return sum(values, F(0)) / len(values)


def spread(values):
    m = mean(values)
    return sum(((v - m) ** 2 for v in values), F(0))


def boundary(units, planned, alpha):
    r = math.sqrt((-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / planned)

    def evidence(s):
        # The likelihood ratio of a drift is that of a normal distribution around the
        # posterior mean; integrate 12 of its standard deviations to each side.
        precision = units + 1 / r**2
        middle, sd = s / precision, 1 / math.sqrt(precision)
        steps = 4000
        width = 24 * sd / steps
        total = 0.0
        for i in range(steps + 1):
            drift = middle + (i - steps / 2) * width
            total += math.exp(drift * s - drift**2 * units / 2 - drift**2 / (2 * r**2))
        return total * width / (r * math.sqrt(2 * math.pi))

    low, high = 0.0, 10 * math.sqrt(units)
    for _ in range(200):
        s = (low + high) / 2
        low, high = (s, high) if evidence(s) < 1 / alpha else (low, s)
    return low / math.sqrt(units)


def compare(what, planned, alpha):
    strata = [s for s in STRATA if s[0] and s[1]]
    weight = [F(len(c) * len(a), len(c) + len(a)) for c, a in strata]
    total = sum(weight)
    # The regression by least squares, within cells.
    slope = [F(0), F(0)]
    if what == "past":
        rows = []
        for cell in (cell for s in strata for cell in s):
            columns = [[F(u["past"] * u["has"]) for u in cell], [F(u["has"]) for u in cell], [F(u["y"]) for u in cell]]
            columns = [[v - mean(c) for v in c] for c in columns]
            rows += list(zip(*columns))
        a = [[sum(r[i] * r[j] for r in rows) for j in range(3)] for i in range(2)]
        factor = a[1][0] / a[0][0]
        a[1] = [p - factor * q for p, q in zip(a[1], a[0])]
        slope[1] = a[1][2] / a[1][1]
        slope[0] = (a[0][2] - a[0][1] * slope[1]) / a[0][0]

    def explained(u):
        return slope[0] * u["past"] * u["has"] + slope[1] * u["has"]

    def combine(cells, others=None):
        """Of lists of numbers, one for each stratum: the weighted mean and its variance. No
        stratum varies less than around what is the best guess of each of its units, in both
        arms, if the other arm's lists are given."""
        freedom = sum(len(c) - 1 for c in cells)
        pooled = sum(spread(c) for c in cells) / freedom
        m = sum(w * mean(c) for w, c in zip(weight, cells)) / total
        each = [spread(c) / (len(c) - 1) if len(c) > 1 else pooled for c in cells]
        if others:
            left = [[x - mean(part) for part in both for x in part] for both in zip(cells, others)]
            each = [max(v, sum(x * x for x in both) / (len(both) - 2)) for v, both in zip(each, left)]
        return m, sum(w * w * v / len(c) for w, v, c in zip(weight, each, cells)) / total**2

    numbers, shared = [], F(0)
    for arm in 0, 1:
        if what == "ratio":
            left = []
            for i in arm, 1 - arm:
                top, bottom = (combine([[F(u[k]) for u in s[i]] for s in strata])[0] for k in ("part", "d"))
                left.append((top / bottom, bottom, [[u["part"] - top / bottom * u["d"] for u in s[i]] for s in strata]))
            (r, bottom, own), (_, _, others) = left
            numbers.append((r, combine(own, others)[1] / bottom**2))
        elif what == "past":
            m, v = combine(*([[u["y"] - explained(u) for u in s[i]] for s in strata] for i in (arm, 1 - arm)))
            at, shared = combine([[explained(u) for u in c + a] for c, a in strata])
            numbers.append((m + at, v))
        else:
            sides = [[[F(u[what]) for u in s[i]] for s in strata] for i in (arm, 1 - arm)]
            numbers.append(combine(sides[0]) if what == "rate" else combine(*sides))
    (c, vc), (a, va) = [(float(m), float(v)) for m, v in numbers]
    shared = float(shared)
    f = boundary(float(4 * total), planned, alpha)
    width = f * math.sqrt(vc + va)

    def out(q):
        return abs(a - q * c) - f * math.sqrt(va + q * q * vc + (q - 1) ** 2 * shared)

    def edge(inside, outside):
        for _ in range(200):
            q = (inside + outside) / 2
            inside, outside = (inside, q) if out(q) > 0 else (q, outside)
        return inside
    assert out(-100) > 0 and out(100) > 0
    return dict(what=what, planned=planned, alpha=alpha,
                absolute=[a - c, a - c - width, a - c + width],
                relative=[a / c - 1, edge(a / c, -100) - 1, edge(a / c, 100) - 1])


def counts(control, arm, share):
    share, total = Decimal(share), Decimal(0)
    ratios = [Decimal(r) for r in "1.1 1.25 1.5 1.75 2 2.5 3 4 5 7 10 15 20 25".split()]
    for r in ratios + [1 / r for r in ratios]:
        odds = r * share / (1 - share)
        theta = odds / (1 + odds)
        total += (theta / share) ** arm * ((1 - theta) / (1 - share)) ** control / 28
    return dict(control=control, arm=arm, share=float(share), value=float(total))


def divided(segments):
    factor = Decimal(1)
    for counts, shares in segments:
        shares = [Decimal(s) for s in shares]
        seen, all_seen = [0] * len(shares), 0
        for i, n in enumerate(counts):
            for _ in range(n):
                factor *= (1000 * shares[i] + seen[i]) / (1000 + all_seen) / shares[i]
                seen[i] += 1
                all_seen += 1
    return dict(segments=[dict(Units=c, Shares=[float(s) for s in p]) for c, p in segments], value=float(factor))


print(json.dumps(dict(
    boundary=[dict(units=u, planned=n, alpha=a, value=boundary(u, n, a))
              for u, n, a in [(600, 5000, .05), (5000, 5000, .05), (123456, 5000, .0025), (1000, 40000, .025)]],
    compare=[compare(*c) for c in [("y", 5000, .05), ("y", 900, .0125), ("rate", 20000, .045), ("past", 5000, .05),
                                   ("ratio", 5000, .05), ("ratio", 30000, .01)]],
    counts=[counts(*c) for c in [(0, 0, ".5"), (5, 20, ".5"), (20, 5, ".5"), (3, 9, ".05"), (400, 1, ".01"), (400, 12, ".01")]],
    divided=[divided(s) for s in [
        [([500, 500], [".5", ".5"])], [([4700, 5300], [".5", ".5"])], [([90, 410, 2500], [".01", ".14", ".85"])],
        [([40, 960], [".05", ".95"]), ([3100, 2900], [".5", ".5"])]]],
), indent=1))
