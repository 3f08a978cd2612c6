"""Errors of model services, for people who are not to learn the owner's addresses and accounts."""

from agent.i18n import mark_for_translation

WITHHELD = mark_for_translation(
    "The model did not answer. Try again later; the log of this Kore tells its owner why."
)
