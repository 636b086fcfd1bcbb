"""Security identifiers of Windows: of this user, and of an open pipe's owner. `host.windows.accounts` knows the others.

Users have no numeric ids on Windows; a SID such as `S-1-5-21-…-1001` stays the same when an account is renamed.
Imported by the bridge: standard library only. Every other system has uids, and nothing here.
"""

import sys

# Result for a user that cannot be determined, after ACCESS_DENIED and the like: equal to no user.
NOBODY = ""

if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _TOKEN_QUERY = 0x0008
    _TOKEN_USER = 1
    # A SID has at most 68 bytes; TOKEN_USER is a pointer and a number before it.
    _TOKEN_USER_BYTES = 128
    _SE_KERNEL_OBJECT = 6
    _OWNER_SECURITY_INFORMATION = 1

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _advapi = ctypes.WinDLL("advapi32", use_last_error=True)
    _kernel.GetCurrentProcess.argtypes = ()
    _kernel.GetCurrentProcess.restype = wintypes.HANDLE
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
    _kernel.LocalFree.argtypes = (wintypes.HLOCAL,)
    _kernel.LocalFree.restype = wintypes.HLOCAL
    _advapi.OpenProcessToken.argtypes = (wintypes.HANDLE, wintypes.DWORD, wintypes.PHANDLE)
    _advapi.GetTokenInformation.argtypes = (
        wintypes.HANDLE, ctypes.c_int, wintypes.LPVOID, wintypes.DWORD, wintypes.PDWORD,
    )  # fmt: skip
    _advapi.ConvertSidToStringSidW.argtypes = (wintypes.LPVOID, ctypes.POINTER(wintypes.LPVOID))
    _advapi.GetSecurityInfo.argtypes = (
        wintypes.HANDLE, ctypes.c_int, wintypes.DWORD, ctypes.POINTER(wintypes.LPVOID), wintypes.LPVOID,
        wintypes.LPVOID, wintypes.LPVOID, ctypes.POINTER(wintypes.LPVOID),
    )  # fmt: skip
    _advapi.GetSecurityInfo.restype = wintypes.DWORD

    def own() -> str:
        """Return the user of this process. Raises OSError, which a working system never causes."""
        token = wintypes.HANDLE()
        if not _advapi.OpenProcessToken(_kernel.GetCurrentProcess(), _TOKEN_QUERY, ctypes.byref(token)):
            raise ctypes.WinError(ctypes.get_last_error())
        if user := _user_of(token):
            return user
        raise OSError("Windows does not say who the user of this process is")

    def owner(handle: int) -> str:
        """Return the owner of an open pipe, for either end; NOBODY if Windows does not tell."""
        sid, descriptor = wintypes.LPVOID(), wintypes.LPVOID()
        problem = _advapi.GetSecurityInfo(
            handle, _SE_KERNEL_OBJECT, _OWNER_SECURITY_INFORMATION, ctypes.byref(sid), None, None, None,
            ctypes.byref(descriptor),
        )  # fmt: skip
        if problem:
            return NOBODY
        try:
            return _as_text(sid)
        finally:
            _kernel.LocalFree(descriptor)

    def _user_of(token: wintypes.HANDLE) -> str:
        """Return the user of a token, and close the token."""
        buffer = (ctypes.c_void_p * (_TOKEN_USER_BYTES // ctypes.sizeof(ctypes.c_void_p)))()
        needed = wintypes.DWORD()
        try:
            if not _advapi.GetTokenInformation(token, _TOKEN_USER, buffer, ctypes.sizeof(buffer), ctypes.byref(needed)):
                return NOBODY
            # struct TOKEN_USER begins with the pointer to the SID.
            return _as_text(wintypes.LPVOID(buffer[0]))
        finally:
            _kernel.CloseHandle(token)

    def _as_text(sid: wintypes.LPVOID) -> str:
        text = wintypes.LPVOID()
        if not _advapi.ConvertSidToStringSidW(sid, ctypes.byref(text)):
            return NOBODY
        try:
            return ctypes.wstring_at(text.value or 0)
        finally:
            _kernel.LocalFree(text)

else:

    def own() -> str:
        """Return NOBODY: this system has no SIDs."""
        return NOBODY
