"""Windows: named pipes, jobs, the Task Scheduler, services.

pywin32 is imported where it is used: the bridge imports some of these modules, and runs without packages.
"""
