// Writes index.html, junit.xml and JSON files so that a full disk leaves no partial file.
#include <truestep/report/folder.hpp>

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <truestep/problem/error.hpp>
#include <truestep/report/junit.hpp>
#include <truestep/report/page.hpp>
#include <truestep/report/runs.hpp>
#include <truestep/storage/files.hpp>

namespace truestep::report {

namespace {

namespace fs = std::filesystem;

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
    const storage::Destination written = storage::disk().destination(path);
    const fs::path& first = written.first;
    if (written.in_place()) // opening and closing a pipe would end its reader
        return !fs::is_directory(first) && access(first.c_str(), W_OK) == 0;
    if (fs::exists(written.last) && access(written.last.c_str(), W_OK) != 0)
        return false; // it could be replaced, but must not be
    const bool was_there = fs::exists(first);
    if (!std::ofstream(first, std::ios::app))
        return false;
    std::error_code ignored;
    if (!was_there)
        fs::remove(first, ignored);
    return true;
}

/// A file that a full disk cuts short never appears under its final name.
void write_text(const std::string& path, const std::string& text, const std::string& what) {
    const storage::Destination written = storage::disk().destination(path);
    std::ofstream file(written.first, std::ios::binary);
    file << text;
    file.close();
    std::error_code error;
    if (file && !written.in_place())
        fs::rename(written.first, written.last, error);
    if (file && !error)
        return;
    if (file) { // a file mounted by itself, or another user's in a shared folder: renaming over it is
                // impossible
        std::ofstream in_place(written.last, std::ios::binary);
        in_place << text;
        in_place.close();
        error.clear();
        fs::remove(written.first, error);
        if (in_place)
            return;
    }
    std::error_code ignored;
    if (!written.in_place())
        fs::remove(written.first, ignored);
    throw Error(path + ": the " + what +
                " could not be written; check the folder and the space on the disk");
}

void write_folder(const std::string& folder, const std::vector<nlohmann::ordered_json>& results) {
    write_both(folder, html_page(results), junit_xml(results));
}

void write_index(const std::string& folder, const std::vector<fs::path>& files,
                 const std::vector<nlohmann::ordered_json>& results) {
    write_both(folder, index_page(files, results, folder), junit_xml(results));
}

void write_runs_folder(const std::string& folder, const nlohmann::ordered_json& runs) {
    write_both(folder, runs_page(runs), runs_junit(runs));
}

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
    // A JSON text has to be UTF-8, whatever a path or a name in a trace holds.
    write_text(path, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n",
               "result");
}

} // namespace truestep::report
