/* Records in order what a process does to the files of one folder: preloaded by tests/server/power.rs.
 *
 * GETID_TEST_RECORD      the file that gets the lines
 * GETID_TEST_RECORD_DIR  absolute path of the folder
 * GETID_TEST_SKIP        "file" or "folder": such a sync returns success and does nothing (a planted fault)
 * GETID_TEST_STOP        "rename": the process stops itself (SIGSTOP) after its first rename
 *
 * Lines: create NAME | write NAME HEX | sync NAME | sync-folder | rename FROM TO | unlink NAME
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Writes a line by a system call, because this file replaces `write`. */
static void write_line(const char *line, size_t len) {
    static int log = -1;
    if (log < 0) {
        const char *path = getenv("GETID_TEST_RECORD");
        if (!path) return;
        log = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    syscall(SYS_write, log, line, len);
}

static void write_words(const char *first, const char *second, const char *third) {
    char line[1024];
    int len = snprintf(line, sizeof line, "%s%s%s%s%s\n", first, second ? " " : "", second ? second : "",
                       third ? " " : "", third ? third : "");
    if (len > 0 && (size_t)len < sizeof line) write_line(line, (size_t)len);
}

/* Returns 1 for the folder itself, 2 for a file in it, whose name it writes to `name`, and 0 otherwise. */
static int place(int fd, char name[256]) {
    const char *dir = getenv("GETID_TEST_RECORD_DIR");
    char link[64], path[4096];
    if (!dir) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0) return 0;
    path[len] = 0;
    size_t dir_len = strlen(dir);
    if (strncmp(path, dir, dir_len) != 0) return 0;
    if (path[dir_len] == 0) return 1;
    if (path[dir_len] != '/' || strchr(path + dir_len + 1, '/')) return 0;
    snprintf(name, 256, "%s", path + dir_len + 1);
    return 2;
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static int open_recorded(int (*real)(int, const char *, int, ...), int at, const char *path, int flags, mode_t mode) {
    int fd = real(at, path, flags, mode);
    char name[256];
    if (fd >= 0 && (flags & O_CREAT) && (flags & O_EXCL) && place(fd, name) == 2) write_words("create", name, 0);
    return fd;
}

int openat(int at, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    return open_recorded(REAL(openat), at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    return open_recorded(REAL(openat64), at, path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t len) {
    ssize_t written = syscall(SYS_write, fd, bytes, len);
    char name[256];
    if (written > 0 && place(fd, name) == 2) {
        size_t size = 300 + 2 * (size_t)written;
        char *line = malloc(size);
        int at = snprintf(line, size, "write %s ", name);
        for (ssize_t i = 0; i < written; i++) at += sprintf(line + at, "%02x", ((const unsigned char *)bytes)[i]);
        line[at++] = '\n';
        write_line(line, (size_t)at);
        free(line);
    }
    return written;
}

static int sync_recorded(int (*real)(int), int fd) {
    char name[256];
    int what = place(fd, name);
    const char *skip = getenv("GETID_TEST_SKIP");
    if (skip && ((what == 1 && !strcmp(skip, "folder")) || (what == 2 && !strcmp(skip, "file")))) return 0;
    int result = real(fd);
    if (result == 0 && what == 1) write_words("sync-folder", 0, 0);
    if (result == 0 && what == 2) write_words("sync", name, 0);
    return result;
}

int fsync(int fd) { return sync_recorded(REAL(fsync), fd); }

int fdatasync(int fd) { return sync_recorded(REAL(fdatasync), fd); }

int renameat(int from_at, const char *from, int to_at, const char *to) {
    char name[256];
    int result = REAL(renameat)(from_at, from, to_at, to);
    if (result == 0 && place(to_at, name) == 1) {
        const char *stop = getenv("GETID_TEST_STOP");
        static int stopped;
        write_words("rename", from, to);
        if (stop && !strcmp(stop, "rename") && !stopped++) kill(getpid(), SIGSTOP);
    }
    return result;
}

int unlinkat(int at, const char *path, int flags) {
    char name[256];
    int result = REAL(unlinkat)(at, path, flags);
    if (result == 0 && place(at, name) == 1) write_words("unlink", path, 0);
    return result;
}
