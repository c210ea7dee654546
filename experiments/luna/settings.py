"""Shared by the experiments of LUNA."""

from __future__ import annotations

OUT = "runs/luna-{scale}"
# Number encoder, on disk and in results → its name in the paper.
NUMBEDS = {"char_lstm": "CharLSTM", "char_former": "CharFormer", "dice": "DICE"}
