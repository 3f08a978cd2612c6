from cronline.parse import CronError, parse

__all__ = ["CronError", "parse"]
