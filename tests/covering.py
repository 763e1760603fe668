"""Parametrisations that are smaller than the product of their values."""

import itertools

import pytest


def cases(axes, strength):
    """Choices of one value of each axis: any `strength` axes have all combinations among them."""
    sets = list(itertools.combinations(range(len(axes)), strength))
    missing = {
        tuple(zip(chosen, places, strict=True)): None
        for chosen in sets
        for places in itertools.product(*(range(len(axes[axis])) for axis in chosen))
    }
    while missing:
        case = dict(next(iter(missing)))
        for axis in sorted(set(range(len(axes))) - set(case), key=lambda axis: -len(axes[axis])):

            def is_new(place, axis=axis, case=case):
                """How many combinations it adds."""
                others = itertools.combinations(sorted(case.items()), strength - 1)
                return sum(tuple(sorted([*some, (axis, place)])) in missing for some in others)

            case[axis] = max(range(len(axes[axis])), key=is_new)
        case = sorted(case.items())
        for some in itertools.combinations(case, strength):
            missing.pop(some, None)
        yield tuple(axes[axis][place] for axis, place in case)


def covering(strength=2, **axes):
    """Parametrise a test so that any `strength` of the arguments meet in all combinations.

    Mistakes that need more settings than that to come together are rare, and random calls look for
    them (random_calls.py, random_fits.py).
    """
    return pytest.mark.parametrize(
        list(axes), list(cases(list(map(list, axes.values())), strength))
    )
