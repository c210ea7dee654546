"""What the experiments of LUNA share."""

from __future__ import annotations

OUT = "runs/luna-{scale}"
# Number encoders, on disk and in results → what the paper calls them.
NUMBEDS = {"char_lstm": "CharLSTM", "char_former": "CharFormer", "dice": "DICE"}
