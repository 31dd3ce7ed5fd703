// For tests under wine alone: older ones have no bcryptprimitives.dll, whose ProcessPrng Rust's standard library imports.
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
    const SIZE_T most = 1 << 20;
    while (length > 0) {
        ULONG part = (ULONG)(length < most ? length : most);
        if (!RtlGenRandom(data, part)) return FALSE;
        data += part;
        length -= part;
    }
    return TRUE;
}
