/* Files that hang, like those of a network file system without its server: preloaded by tests/server/files.rs.
 *
 * GETID_TEST_HANG_DIR  absolute path of the folder with these files
 * GETID_TEST_HANG      a file whose content selects the calls that wait while it exists. "open": opening a file of that
 *                      folder; "sync": a sync of one. The file NAME.begun next to it is created once a call waits.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* Returns 1 if `call` hangs now. Uses system calls, because this file replaces `open`. */
static int hangs(const char *call) {
    const char *path = getenv("GETID_TEST_HANG");
    char text[16] = {0};
    if (!path) return 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    if (strcmp(text, call) != 0) return 0;
    char begun[4096];
    snprintf(begun, sizeof begun, "%s.begun", path);
    fd = (int)syscall(SYS_openat, AT_FDCWD, begun, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) syscall(SYS_close, fd);
    return 1;
}

static int is_there(const char *path) {
    const char *dir = getenv("GETID_TEST_HANG_DIR");
    size_t len = dir ? strlen(dir) : 0;
    return dir && strncmp(path, dir, len) == 0 && path[len] == '/';
}

static void wait_to_open(const char *path) {
    while (is_there(path) && hangs("open")) usleep(5000);
}

static void wait_to_sync(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0) return;
    path[len] = 0;
    while (is_there(path) && hangs("sync")) usleep(5000);
}

#define WAITING_OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        wait_to_open(path); \
        return REAL(name)(path, flags, mode); \
    }

WAITING_OPEN(open)
WAITING_OPEN(open64)

int fsync(int fd) {
    wait_to_sync(fd);
    return REAL(fsync)(fd);
}
