/* A disk that fails: preloaded by tests/stores.
 *
 * GETID_TEST_FAIL_DIR  absolute path of the folder on that disk
 * GETID_TEST_FAIL      a file whose content selects the fault while it exists. "full": a write finds no room (ENOSPC);
 *                      "sync": a sync fails (EIO); "read-only": a file cannot be opened for writing (EROFS).
 * GETID_TEST_FAIL_LOG  a file that gets a line for each write and sync: "write NAME", "sync NAME"; the name of the
 *                      folder itself is "."
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* Writes the name of a file in that folder to `name`; returns 0 if it is elsewhere. */
static int place(int fd, char name[256]) {
    const char *dir = getenv("GETID_TEST_FAIL_DIR");
    char link[64], path[4096];
    if (!dir) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0) return 0;
    path[len] = 0;
    size_t dir_len = strlen(dir);
    if (strncmp(path, dir, dir_len) != 0 || (path[dir_len] && path[dir_len] != '/')) return 0;
    snprintf(name, 256, "%s", path[dir_len] ? path + dir_len + 1 : ".");
    return 1;
}

/* Logs by system calls, because this file replaces `write`. */
static void write_line(const char *what, const char *name) {
    const char *path = getenv("GETID_TEST_FAIL_LOG");
    char line[512];
    if (!path) return;
    int len = snprintf(line, sizeof line, "%s %s\n", what, name);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return;
    syscall(SYS_write, fd, line, (size_t)len);
    syscall(SYS_close, fd);
}

static int fails(const char *how) {
    const char *path = getenv("GETID_TEST_FAIL");
    char text[16] = {0};
    if (!path) return 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    return strcmp(text, how) == 0;
}

/* Returns 1 if a file may be opened with these flags. */
static int may_open(const char *path, int flags) {
    const char *dir = getenv("GETID_TEST_FAIL_DIR");
    size_t len = dir ? strlen(dir) : 0;
    int is_there = dir && strncmp(path, dir, len) == 0 && path[len] == '/';
    if (!is_there || (flags & O_ACCMODE) == O_RDONLY || !fails("read-only")) return 1;
    errno = EROFS;
    return 0;
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    return may_open(path, flags) ? (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode) : -1;
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    return may_open(path, flags) ? (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode) : -1;
}

/* Returns 1 if a write to this file may succeed. */
static int may_write(int fd) {
    char name[256];
    if (!place(fd, name)) return 1;
    if (fails("full")) {
        errno = ENOSPC;
        return 0;
    }
    write_line("write", name);
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t len) {
    return may_write(fd) ? syscall(SYS_write, fd, bytes, len) : -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) {
    return may_write(fd) ? REAL(pwrite)(fd, bytes, len, at) : -1;
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at) {
    return may_write(fd) ? REAL(pwrite64)(fd, bytes, len, at) : -1;
}

static int sync_watched(int (*real)(int), int fd) {
    char name[256];
    if (!place(fd, name)) return real(fd);
    if (fails("sync")) {
        errno = EIO;
        return -1;
    }
    int result = real(fd);
    if (result == 0) write_line("sync", name);
    return result;
}

int fsync(int fd) { return sync_watched(REAL(fsync), fd); }

int fdatasync(int fd) { return sync_watched(REAL(fdatasync), fd); }
