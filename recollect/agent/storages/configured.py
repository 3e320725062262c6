"""`ConfiguredStorage`: a storage whose options are a config, some of which change while it runs."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from operator import attrgetter
from typing import Any, ClassVar

from recollect.agent.storages.base import Storage
from recollect.agent.storages.config import StorageConfig, spelled_out
from recollect.errors import ConfigError, RecollectWarning, closest


class ConfiguredStorage(Storage):
    """A storage whose options are the fields of `config_class`, each an attribute that shows its present value.

    Attributes
    ----------
    config : StorageConfig
        The options, as they are now.
    changed_parameters : dict
        Values of the parameters that were changed while running.
    """

    config_class: ClassVar[type[StorageConfig]] = StorageConfig
    config: StorageConfig
    # What people call it; of a class that does not say, its own name.
    title: ClassVar[str]
    changed_parameters: dict[str, Any]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.title = vars(cls).get("title", cls.__name__)
        cls.__init__ = spelled_out(cls.__init__, cls.config_class)  # type: ignore[method-assign]
        for name, doc in cls.config_class.docs().items():
            if not hasattr(cls, name):
                setattr(cls, name, property(attrgetter(f"config.{name}"), doc=doc))

    @abstractmethod
    def _locked(self) -> AbstractContextManager[object]:
        """Keep other threads from the stored steps for the time of a block."""

    @abstractmethod
    def _setters(self) -> Mapping[str, Callable[[object], None]]:
        """What changes each parameter that is no option of its own."""

    def update_storage_parameter(self, parameter_name: str, new_parameter_value: object) -> None:
        """Change a parameter; it takes effect on the next batch and on data already stored."""
        if not isinstance(parameter_name, str):
            raise ConfigError(f"parameter_name must be the name of a parameter, got {parameter_name!r}")
        setters = self._setters()
        known = [*setters, *self.config.changing()]
        if parameter_name not in known:
            warnings.warn(
                f"{type(self).__name__} has no parameter {parameter_name!r}, nothing was changed; "
                f"{closest(parameter_name, known)}",
                RecollectWarning,
                stacklevel=2,
            )
            return
        with self._locked():
            if parameter_name in setters:
                setters[parameter_name](new_parameter_value)
            else:
                self._change_option(parameter_name, new_parameter_value)
            self.changed_parameters[parameter_name] = new_parameter_value

    def config_with(self, parameter_name: str, new_parameter_value: object) -> StorageConfig:
        """Options with another value of one of them; refuses one that cannot be."""
        change: dict[str, Any] = {parameter_name: new_parameter_value}
        config = replace(self.config, **change)
        self._check_config(config)
        return config

    def _change_option(self, name: str, value: object) -> None:
        self.config = self.config_with(name, value)
        self._on_change(name)

    def _check_config(self, config: StorageConfig) -> None:
        """Refuse options that do not suit the actor or each other."""

    def _on_change(self, name: str) -> None:
        """Follow an option that has just changed in `config`."""
