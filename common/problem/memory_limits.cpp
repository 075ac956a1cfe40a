// Finds the memory that this process may use, and refuses work that exceeds memory or disk.
#include <truestep/problem/memory_limits.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

#include <truestep/problem/error.hpp>

namespace truestep::problem {

namespace {

double measured_memory() {
    double bytes =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        bytes = std::min(bytes, static_cast<double>(limit.rlim_cur));
    // Version 2 of control groups, then version 1. Without a limit the file says "max", which is
    // not a number.
    for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
        std::ifstream text(file);
        double most = 0.0;
        if (text >> most && most > 0.0)
            bytes = std::min(bytes, most);
    }
    return bytes;
}

} // namespace

std::string bytes_text(double bytes) {
    constexpr std::array units{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    std::size_t unit = 0;
    for (; bytes >= 1000.0 && unit + 1 < units.size(); ++unit)
        bytes /= 1000.0;
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.*f %s", unit == 0 ? 0 : 1, bytes, units.at(unit));
    return text.data();
}

double memory_of_this_machine() {
    static const double bytes = measured_memory();
    return bytes;
}

void check_memory(double bytes, const std::string& what) {
    if (bytes > memory_of_this_machine())
        throw Error(what + " takes at least " + bytes_text(bytes) + " of memory, and there are " +
                    bytes_text(memory_of_this_machine()) +
                    " here; ask for fewer or smaller tensors, fewer ranks or fewer steps");
}

void check_disk(double bytes, const std::filesystem::path& file) {
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    std::error_code unknown;
    const auto space = std::filesystem::space(folder, unknown);
    if (!unknown && bytes > static_cast<double>(space.available))
        throw Error(file.string() + ": takes at least " + bytes_text(bytes) + ", and there are " +
                    bytes_text(static_cast<double>(space.available)) + " free in " + folder.string() +
                    "; ask for less, or give another place");
}

} // namespace truestep::problem
