#include <scape/report/folder.hpp>

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <scape/problem/error.hpp>
#include <scape/report/junit.hpp>
#include <scape/report/page.hpp>
#include <scape/report/runs.hpp>

namespace scape::report {

namespace {

namespace fs = std::filesystem;

struct Written {
    fs::path first;
    fs::path last; ///< the name that it gets when it is whole
};

/// Such as /dev/stdout, whatever that is.
bool is_stream(const fs::path& path) {
    std::error_code error;
    const fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : ".", error);
    return folder.string().starts_with("/proc/") ||
           fs::read_symlink(path, error).string().starts_with("/proc/");
}

/// A device or a pipe has no other name, and a link stays one.
Written written_first(const fs::path& path) {
    std::error_code error;
    const fs::file_status there = fs::status(path, error);
    if (fs::exists(there) && (!fs::is_regular_file(there) || is_stream(path)))
        return {.first = path, .last = path};
    if (!fs::exists(there) && fs::is_symlink(fs::symlink_status(path, error)))
        return {.first = path, .last = path}; // it is to make what the link names
    const fs::path last = fs::exists(there) ? fs::canonical(path) : path;
    return {.first = last.string() + ".partial", .last = last};
}

/// What a full disk cuts short is never found under the name of a whole one.
void write(const std::string& path, const std::string& text, const std::string& what) {
    const Written written = written_first(path);
    std::ofstream file(written.first, std::ios::binary);
    file << text;
    file.close();
    std::error_code error;
    if (file && written.first != written.last)
        fs::rename(written.first, written.last, error);
    if (file && !error)
        return;
    if (file) { // a file that is mounted by itself, or another's in a folder of all: not to be renamed to
        std::ofstream in_place(written.last, std::ios::binary);
        in_place << text;
        in_place.close();
        error.clear();
        fs::remove(written.first, error);
        if (in_place)
            return;
    }
    std::error_code ignored;
    if (written.first != written.last)
        fs::remove(written.first, ignored);
    throw Error(path + ": the " + what +
                " could not be written; check the folder and the space on the disk");
}

void write_both(const std::string& folder, const std::string& page, const std::string& junit) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        throw Error(folder + ": the folder of the report cannot be made (" + error.message() + ")");
    write_text(folder + "/index.html", page);
    write_text(folder + "/junit.xml", junit);
}

} // namespace

bool can_be_written(const std::string& path) {
    const Written written = written_first(path);
    const fs::path& first = written.first;
    if (first != written.last && fs::exists(written.last) && access(written.last.c_str(), W_OK) != 0)
        return false; // it could be renamed over, and is not meant to be
    const bool was_there = fs::exists(first);
    if (!std::ofstream(first, std::ios::app))
        return false;
    std::error_code ignored;
    if (!was_there)
        fs::remove(first, ignored);
    return true;
}

void write_text(const std::string& path, const std::string& text) {
    write(path, text, "report");
}

void write_folder(const std::string& folder, const std::vector<nlohmann::ordered_json>& results) {
    write_both(folder, html_page(results), junit_xml(results));
}

void write_runs_folder(const std::string& folder, const nlohmann::ordered_json& runs) {
    write_both(folder, runs_page(runs), runs_junit(runs));
}

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
    // A JSON text has to be UTF-8, whatever a path or a name in a trace holds.
    write(path, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n",
          "result");
}

} // namespace scape::report
