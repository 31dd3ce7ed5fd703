// interrupt c|break MILLISECONDS COMMAND: starts a command, sends it Ctrl-C or Ctrl-Break after a while, and ends with its exit code.
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static BOOL WINAPI ignore(DWORD event) {
    (void)event;
    return TRUE;
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: interrupt c|break MILLISECONDS COMMAND\n");
        return 2;
    }
    // Ctrl-Break goes to one group of processes; Ctrl-C only to all of the console, this one too.
    BOOL breaks = !strcmp(words[1], "break");
    STARTUPINFOA start = {.cb = sizeof start};
    PROCESS_INFORMATION process;
    DWORD flags = breaks ? CREATE_NEW_PROCESS_GROUP : 0;
    if (!CreateProcessA(NULL, words[3], NULL, NULL, TRUE, flags, NULL, NULL, &start, &process)) {
        fprintf(stderr, "the command does not start: error %lu\n", GetLastError());
        return 2;
    }
    Sleep((DWORD)atoi(words[2]));
    SetConsoleCtrlHandler(ignore, TRUE);
    GenerateConsoleCtrlEvent(breaks ? CTRL_BREAK_EVENT : CTRL_C_EVENT, breaks ? process.dwProcessId : 0);
    if (WaitForSingleObject(process.hProcess, 60000) != WAIT_OBJECT_0) {
        TerminateProcess(process.hProcess, 1);
        fprintf(stderr, "the command goes on\n");
        return 2;
    }
    DWORD code = 0;
    GetExitCodeProcess(process.hProcess, &code);
    return (int)code;
}
