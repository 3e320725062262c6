"""`RecordVideo`: records videos of the agent during training."""

from typing import TYPE_CHECKING

from recollect.callbacks.callback import Callback
from recollect.checks import check_count

if TYPE_CHECKING:
    from recollect.learner import Learner
    from recollect.scheme.scheme import Scheme


class RecordVideo(Callback):
    """Records episodes without exploration at a fixed interval of env steps, in `videos/step-N` of the run's folder.

    The environment must have the render mode `rgb_array`, and videos need the extra `video`.

    Parameters
    ----------
    every_steps : int
        Env steps between recordings; each comes with the update stage that completes them.
    num_episodes : int
        Episodes of each recording.
    """

    def __init__(self, every_steps: int, num_episodes: int = 1) -> None:
        self.every_steps = check_count("every_steps", every_steps)
        self.num_episodes = check_count("num_episodes", num_episodes)
        self._next = self.every_steps

    def check(self, scheme: "Scheme") -> None:
        from recollect.runs.videos import check_renders

        check_renders(scheme)

    def on_start(self, learner: "Learner") -> None:
        learner.folder  # noqa: B018  # says now that there is none, not after the first steps
        self._next = (learner.num_steps // self.every_steps + 1) * self.every_steps

    def on_step(self, learner: "Learner") -> None:
        if learner.num_steps >= self._next:
            from recollect.runs.videos import record_videos

            self._next = (learner.num_steps // self.every_steps + 1) * self.every_steps
            folder = learner.folder.videos_folder / f"step-{learner.num_steps}"
            record_videos(learner.scheme, folder, self.num_episodes)
