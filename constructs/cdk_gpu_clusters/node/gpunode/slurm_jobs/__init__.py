"""What a node does for the jobs of Slurm: prolog, epilog, and the attempts of a job."""
