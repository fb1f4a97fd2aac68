"""What a campaign is to measure, for those who show how far it is."""

import time

from losslab.campaign import recorded
from losslab.screen import cells as progress
from losslab.screen import stages


def note_campaign():
    """Leave word of the cells, and of those that this start measures."""
    outputs = {str(file) for job in workflow.dag.needrun_jobs() for file in job.output}
    least = {
        f"results/cells/{study}/{name}": cell.stopping.least
        for (study, name), cell in CELLS.items()
    }
    todo = [cell for cell in least if f"{cell}/{progress.RESULT}" in outputs]
    progress.note(stages.FOLDER, least, todo, time.time())


def record_campaign():
    """Note in the results which campaign they are of, for those who verify them."""
    recorded.record(Path("results"), workflow.configfiles, config)
