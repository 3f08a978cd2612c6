"""The `bfcl` program with an additional model `kore`, which `kore_tools_only.py` serves.

    OPENAI_BASE_URL=http://127.0.0.1:8377/v1 OPENAI_API_KEY=none \\
        python evals/adapters/kore_bfcl.py generate --model kore --test-category simple_python

Needs bfcl-eval; written against 2026.3.23.
"""

from bfcl_eval.__main__ import cli
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING, ModelConfig
from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler


def register() -> None:
    MODEL_CONFIG_MAPPING["kore"] = ModelConfig(
        model_name="kore",
        display_name="Kore (FC)",
        url="http://127.0.0.1",
        org="Kore",
        license="as the model behind it",
        model_handler=OpenAICompletionsHandler,
        is_fc_model=True,
        # The handler writes underscores, since some vendors do not allow dots in names.
        underscore_to_dot=True,
    )


if __name__ == "__main__":
    register()
    cli()
