"""What the user asks of one GPU: the profiles of its instances, by name or id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: The word for a GPU that is not split, in a layout and in MIG_PARTITION.
OFF = "off"


@dataclass(frozen=True, slots=True)
class MigLayout:
    """The GPU instances of one GPU.

    Attributes:
        profiles: Profile names or ids, in any order: a sequence, or the text of `MIG_PARTITION` for one GPU. The word
            `off` alone leaves the GPU whole.

    Example:
        >>> MigLayout(["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"])
        MigLayout(profiles=('3g.40gb', '2g.20gb', '1g.10gb', '1g.10gb'))
        >>> MigLayout("9,14,19,19").profiles
        ('9', '14', '19', '19')
        >>> MigLayout.whole_gpu().is_whole_gpu
        True
    """

    profiles: Sequence[str | int]

    def __post_init__(self) -> None:
        given = self.profiles.split(",") if isinstance(self.profiles, str) else self.profiles
        object.__setattr__(self, "profiles", tuple(str(profile).strip() for profile in given))

    @classmethod
    def whole_gpu(cls) -> MigLayout:
        """The layout of a GPU that is not split, beside others that are."""
        return cls([OFF])

    @property
    def is_whole_gpu(self) -> bool:
        """Whether the GPU is left whole."""
        return self.profiles == (OFF,)

    def __str__(self) -> str:
        return " + ".join(str(profile) for profile in self.profiles)
