"""Windows: named pipes, jobs, the Task Scheduler, services."""
