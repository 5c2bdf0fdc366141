"""Whether a deploy made its service worse: go, hold or roll back, with a stated rate of false
alarms."""
