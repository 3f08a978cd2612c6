"""Calls about scheduled jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.calls.context import ServiceContext
from gateway.control.declaration import call
from gateway.core.records import JobChange, NewJob


@call(scope="read")
async def list_jobs(ctx: ServiceContext) -> Sequence[Mapping[str, Any]]:
    """List all jobs with their latest runs; `gateway.scheduler.job_text.facts` lists the keys."""
    return await ctx.jobs.jobs()


@call(scope="admin")
async def add_job(ctx: ServiceContext, job: NewJob) -> str:
    """Schedule a reminder or a task; returns a confirmation."""
    return await ctx.jobs.add_from_cli(job)


@call(scope="admin")
async def change_job(ctx: ServiceContext, number: int, change: JobChange) -> str:
    """Remove, pause, resume or run a job; returns a confirmation."""
    return await ctx.jobs.change_from_cli(number, change)
