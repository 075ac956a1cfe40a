// Reads result files and checks them against docs/results.md.
#include <truestep/report/page_data.hpp>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <truestep/report/status.hpp>

#include "page_text.hpp"
#include "shape.hpp"

namespace truestep::report {

namespace {

using nlohmann::ordered_json;

constexpr int format_version = 2;

class Checker : public Shape {
  public:
    using Shape::Shape;

    void file(const ordered_json& result) const {
        if (!result.is_object())
            throw malformed("it is not a JSON object");
        const ordered_json& format = page::at(result, "format");
        if (format != "scape-results")
            throw error(format.is_null() ? "it has no 'format'" : "its format is " + shown(format),
                        "give result files, whose format is \"scape-results\"");
        const ordered_json& version = page::at(result, "version");
        if (!version.is_number_integer() || version != format_version)
            throw error(version.is_null() ? "it has no 'version'" : "its version is " + shown(version),
                        "this tool reads version " + std::to_string(format_version) +
                            "; use the tool that wrote the file");
        keys(result, "the file",
             {{"system", ContentType::text},
              {"settings", ContentType::texts},
              {"command", ContentType::texts},
              {"environment", ContentType::object},
              {"seed", ContentType::count},
              {"rows", ContentType::list},
              {"properties", ContentType::list},
              {"planted", ContentType::list},
              {"totals", ContentType::object},
              {"seconds", ContentType::number}});
        values(result["environment"], "environment", ContentType::text);
        each(result["rows"], "rows", [&](const ordered_json& row, const std::string& where) {
            settings(row, where, result["settings"]);
            matrix_row(row, where);
        });
        each(result["properties"], "properties",
             [this](const ordered_json& row, const std::string& where) { property(row, where); });
        each(result["planted"], "planted",
             [this](const ordered_json& row, const std::string& where) { planted(row, where); });
        totals(result);
    }

  private:
    void settings(const ordered_json& row, const std::string& where, const ordered_json& names) const {
        if (!row.is_object())
            throw malformed(where + " is not an object");
        for (const auto& name : names) {
            const ordered_json& value = page::at(row, name.get<std::string>());
            if (value.is_null())
                throw malformed(where + " has no '" + name.get<std::string>() + "'");
            if (!value.is_number() && !value.is_string())
                throw malformed(where + ": '" + name.get<std::string>() + "' is " + shown(value) +
                                ", not a number or a text");
        }
    }

    void matrix_row(const ordered_json& row, const std::string& where) const {
        keys(row, where,
             {{"implementation", ContentType::text},
              {"communicator", ContentType::text},
              {"workers", ContentType::count},
              {"level", ContentType::text},
              {"cases", ContentType::count},
              {"compared", ContentType::count},
              {"wrong", ContentType::count},
              {"max_ulp", ContentType::number_or_infinity},
              {"share_of_limit", ContentType::number_or_infinity},
              {"seconds", ContentType::number},
              {"status", ContentType::status},
              {"reason", ContentType::text},
              {"command", ContentType::text}});
        failure(row, where);
    }

    void property(const ordered_json& row, const std::string& where) const {
        keys(row, where,
             {{"implementation", ContentType::text},
              {"communicator", ContentType::text},
              {"number", ContentType::count},
              {"property", ContentType::text},
              {"says", ContentType::text},
              {"cases", ContentType::count},
              {"classes", ContentType::object},
              {"seconds", ContentType::number},
              {"status", ContentType::status},
              {"reason", ContentType::text},
              {"command", ContentType::text}});
        values(row["classes"], where + ".classes", ContentType::count);
        failure(row, where);
    }

    void planted(const ordered_json& row, const std::string& where) const {
        keys(row, where,
             {{"number", ContentType::count},
              {"name", ContentType::text},
              {"caught", ContentType::truth},
              {"property", ContentType::text},
              {"also", ContentType::texts},
              {"cases", ContentType::count},
              {"elements", ContentType::count},
              {"ranks", ContentType::count},
              {"steps", ContentType::count},
              {"evaluations", ContentType::count},
              {"seconds", ContentType::number},
              {"command", ContentType::text}});
        failure(row, where);
    }

    void failure(const ordered_json& row, const std::string& of) const {
        const ordered_json& failure = nullable(row, of, "failure");
        if (failure.is_null())
            return;
        const std::string where = of + ".failure";
        keys(failure, where,
             {{"message", ContentType::text}, {"case", ContentType::text}, {"trace", ContentType::text}});
        if (const ordered_json& first = nullable(failure, where, "first"); !first.is_null())
            divergence(first, where + ".first");
        if (const ordered_json& drawing = nullable(failure, where, "drawing"); !drawing.is_null())
            picture(drawing, where + ".drawing");
    }

    void divergence(const ordered_json& first, const std::string& where) const {
        keys(first, where,
             {{"step", ContentType::count},
              {"phase", ContentType::text},
              {"result", ContentType::text},
              {"rank", ContentType::whole},
              {"tensor", ContentType::text},
              {"index", ContentType::whole},
              {"coordinate", ContentType::whole},
              {"expected", ContentType::text},
              {"actual", ContentType::text},
              {"expected_bits", ContentType::text},
              {"actual_bits", ContentType::text},
              {"near", ContentType::list}});
        each(first["near"], where + ".near", [this](const ordered_json& value, const std::string& place) {
            keys(value, place,
                 {{"coordinate", ContentType::count},
                  {"expected", ContentType::text},
                  {"actual", ContentType::text},
                  {"expected_bits", ContentType::text},
                  {"actual_bits", ContentType::text},
                  {"ok", ContentType::truth}});
        });
    }

    void picture(const ordered_json& drawing, const std::string& where) const {
        keys(drawing, where,
             {{"after", ContentType::text},
              {"size", ContentType::count},
              {"ranks", ContentType::count},
              {"tensors", ContentType::list},
              {"segments", ContentType::list},
              {"lanes", ContentType::list}});
        const auto size = drawing["size"].get<std::uint64_t>();
        each(drawing["tensors"], where + ".tensors",
             [&](const ordered_json& tensor, const std::string& place) {
                 keys(tensor, place, {{"name", ContentType::text}, {"note", ContentType::text}});
                 range(tensor, place, size);
             });
        each(drawing["segments"], where + ".segments",
             [&](const ordered_json& segment, const std::string& place) {
                 keys(segment, place, {{"owner", ContentType::count}});
                 range(segment, place, size);
             });
        each(drawing["lanes"], where + ".lanes", [&](const ordered_json& lane, const std::string& place) {
            keys(lane, place,
                 {{"name", ContentType::text},
                  {"title", ContentType::text},
                  {"kind", ContentType::text},
                  {"shared", ContentType::truth},
                  {"values", ContentType::list},
                  {"expected", ContentType::list}});
            if (lane["kind"] != "bits" && lane["kind"] != "floats" && lane["kind"] != "counts")
                throw malformed(place + ": 'kind' is " + shown(lane["kind"]) +
                                ", not bits, floats or counts");
            const std::uint64_t rows = lane["shared"] == true ? 1 : drawing["ranks"].get<std::uint64_t>();
            for (const char* key : {"values", "expected"}) {
                length(lane[key], place + "." + key, rows, "rows");
                each(lane[key], place + "." + key, [&](const ordered_json& row, const std::string& at) {
                    if (key == std::string_view("values") || !row.is_null())
                        lane_row(row, at, lane["kind"], size);
                });
            }
        });
    }

    void lane_row(const ordered_json& row, const std::string& where, const std::string& kind,
                  std::uint64_t size) const {
        value(row, where, ContentType::texts);
        length(row, where, size, "values");
        if (kind == "floats")
            return;
        for (const auto& value : row) {
            const auto& text = value.get_ref<const std::string&>();
            const bool good =
                kind == "bits" ? text == "0" || text == "1"
                               : !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            if (!good)
                throw malformed(where + " holds " + shown(value) + ", which " +
                                (kind == "bits" ? "is not a bit" : "counts nothing"));
        }
    }

    void range(const ordered_json& piece, const std::string& where, std::uint64_t size) const {
        keys(piece, where, {{"begin", ContentType::count}, {"end", ContentType::count}});
        const auto begin = piece["begin"].get<std::uint64_t>();
        const auto end = piece["end"].get<std::uint64_t>();
        if (begin > end || end > size)
            throw malformed(where + " goes from " + std::to_string(begin) + " to " + std::to_string(end) +
                            ", which is not a range within " + std::to_string(size) + " coordinates");
    }

    void length(const ordered_json& list, const std::string& where, std::uint64_t wanted,
                const std::string& of) const {
        if (list.size() != wanted)
            throw malformed(where + " holds " + std::to_string(list.size()) + " " + of + ", not " +
                            std::to_string(wanted));
    }

    /// Checks the totals, because a file that was cut or edited must not pass for a good one.
    void totals(const ordered_json& result) const {
        const std::pair<const char*, Status> all[] = {{"passed", Status::passed},
                                                      {"failed", Status::failed},
                                                      {"skipped", Status::skipped},
                                                      {"mistrusted", Status::mistrusted},
                                                      {"untested", Status::untested}};
        for (const auto& [key, status] : all) {
            keys(result["totals"], "totals", {{key, ContentType::count}});
            std::uint64_t found = 0;
            for (const char* list : {"rows", "properties"})
                for (const ordered_json& row : result[list])
                    found += row["status"] == name(status) ? 1U : 0U;
            if (result["totals"][key].get<std::uint64_t>() != found)
                throw malformed("totals: '" + std::string(key) + "' is " + shown(result["totals"][key]) +
                                ", but rows and properties hold " + std::to_string(found));
        }
    }
};

} // namespace

std::vector<nlohmann::ordered_json> read_results(const std::vector<std::filesystem::path>& paths) {
    std::vector<ordered_json> results;
    for (const std::filesystem::path& path : paths) {
        const Checker checker(path.string());
        std::error_code unknown;
        std::ifstream file(path, std::ios::binary);
        if (!file || std::filesystem::is_directory(path, unknown))
            throw checker.error("it cannot be read",
                                "give a result file, as --json of truestep check writes it");
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        ordered_json result = ordered_json::parse(text, nullptr, false);
        if (result.is_discarded())
            throw checker.malformed("it is not JSON");
        checker.file(result);
        results.push_back(std::move(result));
    }
    return results;
}

} // namespace truestep::report
