"""Jupyter notebooks for tests."""

import base64
import json
from typing import Any

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CELLS: list[dict[str, Any]] = [
    {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Sales\n", "of 2026"]},
    {
        "cell_type": "code",
        "execution_count": 3,
        "id": "load",
        "metadata": {"tags": ["x"]},
        "outputs": [
            {"name": "stdout", "output_type": "stream", "text": ["10 %\r100 %\n", "done\n"]},
            {
                "data": {
                    "image/png": base64.b64encode(PIXEL).decode(),
                    "text/plain": ["<Figure size 640x480>"],
                },
                "metadata": {},
                "output_type": "display_data",
            },
        ],
        "source": ["import pandas as pd\n", "frame = pd.read_csv('größe.csv')"],
    },
    {
        "cell_type": "code",
        "execution_count": None,
        "id": "sum",
        "metadata": {},
        "outputs": [
            {
                "ename": "NameError",
                "evalue": "name 'x' is not defined",
                "output_type": "error",
                "traceback": ["\u001b[0;31mNameError\u001b[0m: name 'x' is not defined"],
            }
        ],
        "source": ["frame.sum()"],
    },
]


def notebook_json(cells: list[dict[str, Any]], **style: Any) -> str:
    content = {
        "cells": cells,
        "metadata": {"kernelspec": {"name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, **({"indent": 1, "ensure_ascii": False} | style)) + "\n"
