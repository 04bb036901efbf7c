"""The job's own sitecustomize: must run once, with or without twinbit."""

import os

os.environ["JOB_SITECUSTOMIZE"] = os.environ.get("JOB_SITECUSTOMIZE", "") + "ran"
