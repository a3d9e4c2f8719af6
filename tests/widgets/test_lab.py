"""JupyterLab: comms stay on the main thread, no news, loopback only, and what a user changed is kept."""

import json
import re

from widgets.lab import OVERRIDES, lab_command, lab_environment
from widgets.lab.__main__ import main


def test_the_overrides_keep_comms_off_subshells_and_ask_for_no_news():
    overrides = json.loads(OVERRIDES.read_text())
    assert overrides["@jupyterlab/apputils-extension:kernels-settings"] == {"commsOverSubshells": "disabled"}
    assert overrides["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_every_override_names_a_setting_that_jupyterlab_has():
    import jupyterlab.commands

    schemas = jupyterlab.commands.get_app_dir()
    for name, values in json.loads(OVERRIDES.read_text()).items():
        package, plugin = name.split(":")
        path = f"{schemas}/schemas/{package}/{plugin}.json"
        with open(path) as schema:
            assert set(values) <= set(json.load(schema)["properties"])


def test_the_server_listens_on_the_loopback_interface_only(tmp_path):
    command = lab_command(tmp_path, port=8899, browser=False)
    assert "--ServerApp.ip=127.0.0.1" in command
    assert "--ServerApp.port_retries=0" in command
    assert not any(re.search(r"token|password", word) for word in command)


def test_the_environment_holds_the_settings_and_keeps_what_a_user_changed(tmp_path):
    environment = lab_environment(tmp_path)
    assert environment["OMP_WAIT_POLICY"] == "passive"
    path = tmp_path / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    assert json.loads(path.read_text())["checkForUpdates"] is False
    path.write_text('{"fetchNews": "true"}')
    lab_environment(tmp_path)
    assert json.loads(path.read_text()) == {"fetchNews": "true"}


def test_a_missing_notebook_is_one_sentence(tmp_path, capsys):
    assert main([str(tmp_path / "none.ipynb")]) == 2
    assert "which is not there" in capsys.readouterr().err
