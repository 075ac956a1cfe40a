#include <scape/report/folder.hpp>

#include <filesystem>
#include <fstream>

#include <scape/problem/error.hpp>
#include <scape/report/junit.hpp>
#include <scape/report/page.hpp>

namespace scape::report {

namespace {

void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file)
        throw Error(path.string() +
                    ": the report could not be written; check the folder and the space on the disk");
}

} // namespace

void write_folder(const std::string& folder, const std::vector<nlohmann::ordered_json>& results) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error)
        throw Error(folder + ": the folder of the report cannot be made (" + error.message() + ")");
    write_text(std::filesystem::path(folder) / "index.html", html_page(results));
    write_text(std::filesystem::path(folder) / "junit.xml", junit_xml(results));
}

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
    std::ofstream file(path);
    // A JSON text has to be UTF-8, whatever a path or a name in a trace holds.
    file << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
    file.close();
    if (!file)
        throw Error(path + ": the result could not be written; check the folder and the space on the disk");
}

} // namespace scape::report
