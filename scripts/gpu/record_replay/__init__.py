"""What R3 must show on a GPU: stages that run real programs, record them, replay them and report."""
