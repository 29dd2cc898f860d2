"""The packages popart and popdist."""

import pytest

import popart
import popart._internal.ir as lower
import popdist
import popxl


def test_exceptions():
    assert issubclass(popart.popart_runtime_error, popart.popart_exception)
    assert issubclass(popart.popart_internal_exception, popart.popart_exception)
    assert issubclass(popart.poplar_application_runtime_error, popart.poplar_runtime_error)
    assert issubclass(popart.poplar_runtime_error, popart.poplar_exception)
    assert popart.popart_exception.__module__ == "popart"


def test_devices():
    manager = popart.DeviceManager()
    manager.setOnDemandAttachTimeout(1)
    assert manager.createIpuModelDevice({"numIPUs": 4, "tilesPerIPU": 4}).numIpus == 4
    assert len(manager.enumerateDevices(numIpus=2)) > 0 and not manager.enumerateDevices(numIpus=10**6)
    device = manager.acquireAvailableDevice(numIpus=2, connectionType=popart.DeviceConnectionType.OnDemand)
    with device as entered:
        assert entered is device and not device.isAttached
        assert device.tryAttachUntilTimeout() and device.isAttached
    assert not device.isAttached and type(device) is popart.DeviceInfo


def test_variable_settings():
    settings = popart.VariableSettings(2, 2)
    assert settings.groups(8) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert not settings.isUsingCommGroup() and (settings.getStride(), settings.getGroupSize()) == (2, 2)
    assert popart.VariableSettings().groups(3) == [[0, 1, 2]]
    grouping = popxl.Ir(8).replica_grouping(2, 2)
    assert isinstance(grouping._pb_replica_grouping, lower.ReplicaGrouping)
    assert (
        grouping._to_variable_settings("all_replicas").getRetrievalMode()
        == popart.VariableRetrievalMode.AllReplicas
    )


def test_logger(capfd):
    logger = popart.getLogger()
    with pytest.raises(ValueError):
        logger.setLevel("LOUD")
    logger.setLevel("INFO")
    try:
        logger.debug("quiet {}")
        logger.info("heard {}")
    finally:
        logger.setLevel("WARN")
    log = capfd.readouterr().err
    assert "heard {}" in log and "quiet" not in log


def test_one_instance_without_a_launcher(monkeypatch):
    for name in ("TOTAL", "LOCAL"):
        monkeypatch.delenv(f"POPDIST_NUM_{name}_REPLICAS", raising=False)
    assert not popdist.isPopdistEnvSet()
    assert (popdist.getNumTotalReplicas(), popdist.getNumLocalReplicas(), popdist.getNumInstances()) == (
        1,
        1,
        1,
    )


def test_values_of_a_launcher(monkeypatch):
    monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "8")
    monkeypatch.setenv("POPDIST_NUM_LOCAL_REPLICAS", "2")
    monkeypatch.setenv("POPDIST_REPLICA_INDEX_OFFSET", "4")
    assert (popdist.getNumInstances(), popdist.getInstanceIndex()) == (4, 2)
    ir = popxl.Ir("popdist")
    assert (ir.replication_factor, ir.instance_replication_factor) == (8, 2)
    monkeypatch.setenv("POPDIST_NUM_LOCAL_REPLICAS", "3")
    with pytest.raises(ValueError):
        popxl.Ir("popdist")


def test_names_that_have_no_effect():
    ir = popxl.Ir()._pb_ir
    ir.updateVertices()
    ir.setPatterns(lower.patterns.Patterns(lower.patterns.PatternsLevel.Default))
    ir.logIr()
    assert popart.DataType.FLOAT8_143 == lower.DataType.FLOAT8_143
    assert popart.VirtualGraphMode.Manual == ir.getSessionOptions().virtualGraphMode
    assert {"All", "Orthogonal", "Consecutive", "Ungrouped"} <= set(popart.CommGroupType.__members__)
