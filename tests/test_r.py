import subprocess


def test_r_unit_tests_pass(root):
    done = subprocess.run(
        ["Rscript", "--vanilla", "analysis/tests/testthat.R"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
