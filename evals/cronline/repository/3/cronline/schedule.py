"""When it runs."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Schedule:
    minutes: set
    hours: set
    days: set
    months: set
    weekdays: set
    has_days: bool
    has_weekdays: bool

    def matches(self, when):
        """Whether it runs in this minute."""
        return (
            when.minute in self.minutes
            and when.hour in self.hours
            and when.month in self.months
            and self.matches_day(when)
        )

    def matches_day(self, when):
        """With both a day of the month and a day of the week, either is enough."""
        day = when.day in self.days
        weekday = when.isoweekday() % 7 in self.weekdays
        if self.has_days and self.has_weekdays:
            return day or weekday
        return day and weekday

    def next_after(self, when):
        """The first minute after `when` in which it runs."""
        when = when.replace(second=0, microsecond=0) + timedelta(minutes=1)
        while not self.matches(when):
            if when.month in self.months and self.matches_day(when):
                when += timedelta(minutes=1)
            else:
                when = when.replace(hour=0, minute=0) + timedelta(days=1)
        return when
