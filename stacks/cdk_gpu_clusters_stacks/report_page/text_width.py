"""How wide a text is drawn, without a browser: the widths of DejaVu Sans, a wide font, so that others fit as well.

Measured on 2026-11-22 with a browser's `measureText`, in thousandths of the font's size, for the characters from the
space to the tilde; any other character counts as the widest.
"""

from __future__ import annotations

_NORMAL = (
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863,
    748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635,
    615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636,
    337, 636, 838,
)  # fmt: skip
_BOLD = (
    348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696, 696,
    696, 696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995,
    837, 850, 733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716,
    678, 435, 716, 712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712,
    365, 712, 838,
)  # fmt: skip
_WIDEST = 1103
_ELLIPSIS = "…"


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width of a text in pixels.

    Args:
        text: The text.
        size: Size of the font in pixels.
        bold: Whether it is bold.
    """
    table = _BOLD if bold else _NORMAL
    return sum(table[ord(one) - 32] if " " <= one <= "~" else _WIDEST for one in text) * size / 1000


def fit_text(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """A text, cut with an ellipsis where it is wider than a width; empty where not even that has room.

    Args:
        text: The text.
        width: Room in pixels.
        size: Size of the font in pixels.
        bold: Whether it is bold.
    """
    if text_width(text, size, bold=bold) <= width:
        return text
    kept = text
    while kept and text_width(kept + _ELLIPSIS, size, bold=bold) > width:
        kept = kept[:-1]
    return kept + _ELLIPSIS if kept else ""


def wrap_text(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """The lines of a text; a word that is wider than a line is cut.

    Args:
        text: The text.
        width: Room in pixels.
        size: Size of the font in pixels.
        bold: Whether it is bold.
    """
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(fit_text(word, width, size, bold=bold))
    return [line for line in lines if line]
