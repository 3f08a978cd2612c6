"""Extract validated data from an invoice.

python examples/invoice.py letter.txt
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import kore


@dataclass
class Item:
    name: str
    amount: int
    price_eur: float


@dataclass
class Invoice:
    number: str
    supplier: str
    items: list[Item]
    total_eur: float


agent = kore.Agent(
    instructions="You read invoices. Copy what stands there; invent nothing.",
    builtin_tools=[],
)


def main(file: str) -> int:
    result = agent.run_sync(Path(file).read_text(), output_type=Invoice)
    invoice: Invoice = result.output
    print(json.dumps(asdict(invoice), indent=2, ensure_ascii=False))
    sum_eur = sum(item.amount * item.price_eur for item in invoice.items)
    if abs(sum_eur - invoice.total_eur) > 0.005:
        print(f"The items come to {sum_eur:.2f}, not {invoice.total_eur:.2f}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
