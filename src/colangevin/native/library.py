"""stub"""
def wanted(fused: object) -> bool:
    if fused is not None and not isinstance(fused, bool):
        raise TypeError(f"fused must be True, False or None, got {fused!r}")
    return False
