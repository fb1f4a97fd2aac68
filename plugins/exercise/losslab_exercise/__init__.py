"""Command `exercise`: exercises for a class, and their grading by bytes."""

from losslab.commands import Command

EXERCISE = Command(
    "losslab_exercise.exercise",
    "exercises for a class: draw a condition for each student, and grade by bytes",
    (
        "losslab exercise start aimd --student 17",
        "losslab exercise start loss --student 17 --predict 3.5,18",
        "losslab exercise submit aimd-17 --because 'CUBIC cuts less'",
        "losslab exercise grade submissions --out grades.csv",
    ),
    "teach",
)
