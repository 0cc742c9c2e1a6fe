"""Search for better settings: Optuna proposes, each proposal is trained, its best validation is its worth.

A directory holds the settings of all trials, the names of those that are fixed (fixed.json), Optuna's journal and a run
directory per trial. A search that was killed goes on with the trial it was in, from that trial's own newest state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple, get_type_hints

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import Trial, TrialState

from pilotage.model.errors import InputError, UnknownNameError
from pilotage.training.algorithms import make_learner
from pilotage.training.loop import train
from pilotage.training.run_directory import RunDirectory, alone_in
from pilotage.training.settings import SearchRange, TrainingSettings, default_settings, search_ranges, settings_from
from pilotage.workloads.files import replace_file

FIXED = "fixed.json"
MOST_DIVERGED = 20  # trials, before the search gives up


class Found(NamedTuple):
    """The best of a search."""

    trial: int
    trials: int  # that were trained to their end
    value: float
    settings: TrainingSettings


def parse_settings(agent: str, texts: Sequence[str]) -> dict[str, object]:
    """Settings from texts such as steps=50000, in the types the agent has them."""
    types = get_type_hints(type(default_settings(agent)))
    known = {entry.name for entry in fields(default_settings(agent))}
    given: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.replace("-", "_")
        if name not in known:
            raise UnknownNameError("setting", name, known, field="--set")
        try:
            given[name] = types[name](value) if types[name] in (int, float) else value
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"cannot read {text!r}", field="--set", expected="a setting such as steps=50000")
    return given


@dataclass(frozen=True)
class Search:
    """One search and its directory."""

    path: Path
    agent: str
    settings: TrainingSettings  # what all trials share
    fixed: frozenset[str] = frozenset()  # names of settings that are not searched for

    @classmethod
    def fresh(cls, out: Path, name: str | None, agent: str, given: Mapping[str, object]) -> Search:
        """Settings that are given are fixed; the others that have a range are searched for."""
        settings = settings_from(agent, given)
        if not search_ranges(settings).keys() - given.keys():
            raise InputError("leaves nothing to search for", field="--set", expected="fewer settings")
        make_learner(settings)  # what cannot be trained is refused before anything is written
        path = RunDirectory.fresh(out, name, agent, settings).path
        replace_file(path / FIXED, (json.dumps(sorted(given)) + "\n").encode())
        return cls(path, agent, settings, frozenset(given))

    @classmethod
    def existing(cls, path: Path, agent: str) -> Search:
        run = RunDirectory.existing(path)
        if run.agent != agent or not (path / FIXED).is_file():
            raise InputError("is no search for this agent", file=path, expected=f"a search for {agent}")
        return cls(path, agent, run.settings, _read_fixed(path / FIXED))

    @property
    def ranges(self) -> dict[str, SearchRange]:
        """Where to look, by setting."""
        return {name: wanted for name, wanted in search_ranges(self.settings).items() if name not in self.fixed}

    def carry_on(
        self,
        trials: int,
        watch: Callable[[int, float], None],
        refused: Callable[[int, str], None] = lambda number, reason: None,
    ) -> Found:
        """Goes on until there are `trials` finished ones; those that came to no value are told with their reason."""
        with alone_in(self.path):
            return self._carry_on(trials, watch, refused)

    def _carry_on(self, trials: int, watch: Callable[[int, float], None], refused: Callable[[int, str], None]) -> Found:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        storage = JournalStorage(JournalFileBackend(str(self.path / "journal.log")))
        study = optuna.create_study(storage=storage, study_name=self.agent, direction="maximize", load_if_exists=True)
        self._take_up_again(study)
        while len(done := study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))) < trials:
            failed = study.get_trials(deepcopy=False, states=(TrialState.FAIL,))
            diverged = sum("diverged" in trial.user_attrs for trial in failed)
            # A sampler of its own for each trial: what comes next does not depend on where the search was stopped.
            study.sampler = optuna.samplers.TPESampler(seed=self.settings.seed + len(done) + diverged)
            trial = study.ask()
            try:
                value = self._worth(trial)
            except InputError as error:
                trial.set_user_attr("diverged", str(error))
                study.tell(trial, state=TrialState.FAIL)
                if diverged >= MOST_DIVERGED:
                    raise
                refused(trial.number, str(error))
                continue
            study.tell(trial, value)
            watch(trial.number, value)
        best = study.best_trial
        return Found(best.number, len(done), study.best_value, self._with(best.params))

    def _take_up_again(self, study: optuna.Study) -> None:
        """Trials that were cut off are proposed once more, under their old directory."""
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)
            study.enqueue_trial(trial.params, user_attrs=trial.user_attrs)

    def _worth(self, trial: Trial) -> float:
        values = {name: self._suggestion(trial, name) for name in self.ranges}
        settings = self._with(values)
        if "directory" not in trial.user_attrs:
            trial.set_user_attr("directory", f"trial-{trial.number:04}")
        path = self.path / trial.user_attrs["directory"]
        if (path / "settings.json").exists():
            run = RunDirectory.existing(path)
        else:
            run = RunDirectory.fresh(self.path, path.name, self.agent, settings)
        summary = train(run, lambda update: None)
        best = summary["best"]
        if not isinstance(best, float):
            raise TypeError(f"{run.path}: no best validation")
        return best

    def _suggestion(self, trial: Trial, name: str) -> float | int:
        low, high, log = self.ranges[name]
        if isinstance(getattr(self.settings, name), int):
            return trial.suggest_int(name, int(low), int(high), log=log)
        return trial.suggest_float(name, low, high, log=log)

    def _with(self, values: dict[str, float]) -> TrainingSettings:
        """Widths become multiples of the heads, which share them."""
        given = asdict(self.settings) | values
        if given["network"] == "graph" and "hidden" in values:
            given["hidden"] = max(1, round(given["hidden"] / given["heads"])) * given["heads"]
        return settings_from(self.agent, given)


def _read_fixed(file: Path) -> frozenset[str]:
    try:
        content = json.loads(file.read_bytes())
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", file=file) from None
    if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
        raise InputError("is no list of names", file=file, expected="names of settings")
    return frozenset(content)
