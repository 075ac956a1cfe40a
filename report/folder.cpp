#include <scape/report/folder.hpp>

#include <filesystem>
#include <fstream>

#include <scape/problem/error.hpp>
#include <scape/report/junit.hpp>
#include <scape/report/page.hpp>
#include <scape/report/runs.hpp>

namespace scape::report {

namespace {

void write_both(const std::string& folder, const std::string& page, const std::string& junit) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        throw Error(folder + ": the folder of the report cannot be made (" + error.message() + ")");
    write_text(folder + "/index.html", page);
    write_text(folder + "/junit.xml", junit);
}

} // namespace

void write_text(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file)
        throw Error(path + ": the report could not be written; check the folder and the space on the disk");
}

void write_folder(const std::string& folder, const std::vector<nlohmann::ordered_json>& results) {
    write_both(folder, html_page(results), junit_xml(results));
}

void write_runs_folder(const std::string& folder, const nlohmann::ordered_json& runs) {
    write_both(folder, runs_page(runs), runs_junit(runs));
}

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
    // A JSON text has to be UTF-8, whatever a path or a name in a trace holds.
    std::ofstream file(path);
    file << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
    file.close();
    if (!file)
        throw Error(path + ": the result could not be written; check the folder and the space on the disk");
}

} // namespace scape::report
