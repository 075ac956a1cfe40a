"""Systems for ReFrame: this machine with its local scheduler, and a cluster with SLURM to adapt. Another one is an entry more."""

import os

# Ranks may be more than cores, and root may start them, as ci/ranks does it.
OVER = [["OMPI_MCA_rmaps_base_oversubscribe", "1"], ["OMPI_ALLOW_RUN_AS_ROOT", "1"], ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"]]

site_configuration = {
    "systems": [
        {"name": "here", "hostnames": [".*"], "partitions": [
            {"name": "cores", "scheduler": "local", "launcher": "mpirun", "environs": ["builtin"], "env_vars": OVER, "max_jobs": 1}]},
        {"name": "cluster", "hostnames": ["login"], "partitions": [
            {"name": "cpu", "scheduler": "squeue", "launcher": "srun", "environs": ["builtin"],
             "access": ["--partition=" + os.environ.get("TRUESTEP_PARTITION", "local")], "max_jobs": 1}]},
    ],
    "general": [{"purge_environment": False, "resolve_module_conflicts": False}],
}
