"""Security descriptors of Windows, in the form that the functions take that make pipes and files."""

import sys

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _advapi = ctypes.WinDLL("advapi32", use_last_error=True)
    _advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW.argtypes = (
        wintypes.LPCWSTR, wintypes.DWORD, ctypes.POINTER(wintypes.LPVOID), wintypes.PULONG,
    )  # fmt: skip
    _SDDL_REVISION = 1

    class SecurityAttributes(ctypes.Structure):
        """SECURITY_ATTRIBUTES structure. Handles made with it are not inherited."""

        _fields_ = (("length", wintypes.DWORD), ("descriptor", wintypes.LPVOID), ("inherit", wintypes.BOOL))

    def attributes(text: str) -> SecurityAttributes:
        """Return attributes with a descriptor given in SDDL, which is never freed. Raises OSError."""
        found = wintypes.LPVOID()
        if not _advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW(
            text, _SDDL_REVISION, ctypes.byref(found), None
        ):
            raise ctypes.WinError(ctypes.get_last_error())
        return SecurityAttributes(ctypes.sizeof(SecurityAttributes), found, False)
