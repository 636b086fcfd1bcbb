/* A stand-in for launchd's launch_activate_socket(3), which only macOS has.
 *
 * Loaded by ctypes, or preloaded into a daemon. STAND_IN_FD is the descriptor that it hands over (twice the same number with
 * STAND_IN_COUNT=2), STAND_IN_ERROR an error number instead. The second request of a process is EALREADY, as launchd has it.
 * What it allocates and what is given back of it is counted, and written to the file STAND_IN_LEDGER at the end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *handed[16];
static int allocated, freed, taken;

void free(void *pointer)
{
    static void (*real)(void *);
    if (!real)
        real = (void (*)(void *)) dlsym(RTLD_NEXT, "free");
    for (int i = 0; pointer && i < allocated; i++)
        if (handed[i] == pointer) {
            handed[i] = NULL;
            freed++;
        }
    real(pointer);
}

int launch_activate_socket(const char *name, int **fds, size_t *cnt)
{
    const char *error = getenv("STAND_IN_ERROR"), *fd = getenv("STAND_IN_FD"), *count = getenv("STAND_IN_COUNT");
    if (error)
        return atoi(error);
    if (!fd)
        return ESRCH;
    if (strcmp(name, "mcp") != 0)
        return ENOENT;
    if (taken++)
        return EALREADY;
    *cnt = count ? (size_t) atoi(count) : 1;
    int *array = malloc((*cnt ? *cnt : 1) * sizeof *array);
    for (size_t i = 0; i < *cnt; i++)
        array[i] = atoi(fd) + (int) i;
    handed[allocated++] = array;
    *fds = array;
    return 0;
}

int stand_in_allocated(void) { return allocated; }
int stand_in_freed(void) { return freed; }

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("STAND_IN_LEDGER");
    FILE *file = path && allocated ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%d %d\n", allocated, freed);
        fclose(file);
    }
}

/* struct xucred as <sys/ucred.h> of macOS has it, laid out by the compiler: 16 groups, the layout's version 0. */
struct xucred {
    unsigned int cr_version;
    unsigned int cr_uid;
    short cr_ngroups;
    unsigned int cr_groups[16];
};

size_t stand_in_xucred(unsigned char *into, unsigned int version, unsigned int uid, short groups, unsigned int gid)
{
    struct xucred found;
    memset(&found, 0xee, sizeof found);
    found.cr_version = version;
    found.cr_uid = uid;
    found.cr_ngroups = groups;
    found.cr_groups[0] = gid;
    memcpy(into, &found, sizeof found);
    return sizeof found;
}

/* struct proc_bsdinfo as <sys/proc_info.h> of macOS has it, as far as the start time, with MAXCOMLEN 16. */
struct proc_bsdinfo {
    unsigned int pbi_flags, pbi_status, pbi_xstatus, pbi_pid, pbi_ppid, pbi_uid, pbi_gid, pbi_ruid, pbi_rgid, pbi_svuid, pbi_svgid, rfu_1;
    char pbi_comm[16];
    char pbi_name[32];
    unsigned int pbi_nfiles, pbi_pgid, pbi_pjobc, e_tdev, e_tpgid;
    int pbi_nice;
    unsigned long long pbi_start_tvsec, pbi_start_tvusec;
};

/* libproc's, for one known process, which sleeps; any other does not exist. */
int proc_pidinfo(int pid, int flavor, unsigned long long arg, void *buffer, int size)
{
    struct proc_bsdinfo found;
    if (flavor != 3 || arg != 0 || pid != 4711 || size != (int) sizeof found)
        return 0;
    memset(&found, 0xee, sizeof found);
    found.pbi_status = 3;
    found.pbi_start_tvsec = 1700000000;
    found.pbi_start_tvusec = 999999;
    memcpy(buffer, &found, sizeof found);
    return sizeof found;
}
