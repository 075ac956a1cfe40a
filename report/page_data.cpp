// Reading result files: docs/results.md, held against each.
#include <scape/report/page_data.hpp>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/report/status.hpp>

#include "page_parts.hpp"

namespace scape::report {

namespace {

using nlohmann::ordered_json;

constexpr int format_version = 1;

enum class Want { text, count, whole, number, number_or_infinity, truth, texts, status, object, list };

struct Key {
    const char* name;
    Want want;
};

const char* words(Want want) {
    switch (want) {
    case Want::text:
        return "a text";
    case Want::count:
        return "a whole number of at least 0";
    case Want::whole:
        return "a whole number";
    case Want::number:
        return "a number of at least 0";
    case Want::number_or_infinity:
        return "a number of at least 0 or the text inf";
    case Want::truth:
        return "true or false";
    case Want::texts:
        return "a list of texts";
    case Want::status:
        return "one of PASSED, FAILED, SKIPPED, MISTRUSTED, UNTESTED";
    case Want::object:
        return "an object";
    case Want::list:
        break;
    }
    return "a list";
}

bool is_status(const ordered_json& value) {
    for (const Status status :
         {Status::passed, Status::failed, Status::skipped, Status::mistrusted, Status::untested})
        if (value == name(status))
            return true;
    return false;
}

bool is_texts(const ordered_json& value) {
    if (!value.is_array())
        return false;
    for (const ordered_json& element : value)
        if (!element.is_string())
            return false;
    return true;
}

bool is_count(const ordered_json& value) {
    return value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
}

bool fits(const ordered_json& value, Want want) {
    switch (want) {
    case Want::text:
        return value.is_string();
    case Want::count:
        return is_count(value);
    case Want::whole:
        return value.is_number_integer();
    case Want::number:
        return value.is_number() && value.get<double>() >= 0.0;
    case Want::number_or_infinity:
        return value == "inf" || fits(value, Want::number);
    case Want::truth:
        return value.is_boolean();
    case Want::texts:
        return is_texts(value);
    case Want::status:
        return is_status(value);
    case Want::object:
        return value.is_object();
    case Want::list:
        break;
    }
    return value.is_array();
}

/// One file, and the words for what is wrong with it.
class Checker {
  public:
    explicit Checker(std::string path) : path_(std::move(path)) {}

    [[nodiscard]] Error error(const std::string& what, const std::string& remedy) const {
        return Error(one_line(path_ + ": " + what + "; " + remedy));
    }
    [[nodiscard]] Error malformed(const std::string& what) const {
        return error(
            what,
            "make the file again with scape check or scape planted (docs/results.md says what it holds)");
    }

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
             {{"command", Want::texts},
              {"environment", Want::object},
              {"seed", Want::count},
              {"rows", Want::list},
              {"properties", Want::list},
              {"planted", Want::list},
              {"totals", Want::object},
              {"seconds", Want::number}});
        values(result["environment"], "environment", Want::text);
        // Files from before there were several systems do not say which settings their rows have.
        const bool says = result.contains("settings");
        if (says)
            keys(result, "the file", {{"settings", Want::texts}});
        each(result["rows"], "rows", [&](const ordered_json& row, const std::string& where) {
            if (says)
                settings(row, where, result["settings"]);
            else
                keys(row, where,
                     {{"density", Want::number}, {"partition", Want::text}, {"correction", Want::text}});
            matrix_row(row, where);
        });
        each(result["properties"], "properties",
             [this](const ordered_json& row, const std::string& where) { property(row, where); });
        each(result["planted"], "planted",
             [this](const ordered_json& row, const std::string& where) { planted(row, where); });
        totals(result);
    }

  private:
    /// Not more than a line has room for, and not the inside of lists and objects, which may be deep.
    [[nodiscard]] static std::string shown(const ordered_json& value) {
        constexpr std::size_t most = 60;
        if (value.is_structured())
            return value.is_array() ? "a list" : "an object";
        const std::string text = value.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
        return text.size() <= most ? text : text.substr(0, most) + "...";
    }

    void keys(const ordered_json& object, const std::string& where,
              std::initializer_list<Key> wanted) const {
        if (!object.is_object())
            throw malformed(where + " is not an object");
        for (const Key& key : wanted) {
            const auto found = object.find(key.name);
            if (found == object.end())
                throw malformed(where + " has no '" + key.name + "'");
            if (!fits(*found, key.want))
                throw malformed(where + ": '" + key.name + "' is " + shown(*found) + ", not " +
                                words(key.want));
        }
    }

    void values(const ordered_json& object, const std::string& where, Want want) const {
        for (const auto& [key, value] : object.items())
            if (!fits(value, want))
                throw malformed(where + ": '" + key + "' is " + shown(value) + ", not " + words(want));
    }

    template <class Check>
    static void each(const ordered_json& list, const std::string& where, Check check) {
        for (std::size_t i = 0; i < list.size(); ++i)
            check(list[i], where + "[" + std::to_string(i) + "]");
    }

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
             {{"implementation", Want::text},
              {"communicator", Want::text},
              {"workers", Want::count},
              {"level", Want::text},
              {"cases", Want::count},
              {"compared", Want::count},
              {"wrong", Want::count},
              {"max_ulp", Want::number_or_infinity},
              {"share_of_limit", Want::number_or_infinity},
              {"seconds", Want::number},
              {"status", Want::status},
              {"reason", Want::text},
              {"command", Want::text}});
        failure(row, where);
    }

    void property(const ordered_json& row, const std::string& where) const {
        keys(row, where,
             {{"implementation", Want::text},
              {"communicator", Want::text},
              {"number", Want::count},
              {"property", Want::text},
              {"says", Want::text},
              {"cases", Want::count},
              {"classes", Want::object},
              {"seconds", Want::number},
              {"status", Want::status},
              {"reason", Want::text},
              {"command", Want::text}});
        values(row["classes"], where + ".classes", Want::count);
        failure(row, where);
    }

    void planted(const ordered_json& row, const std::string& where) const {
        keys(row, where,
             {{"number", Want::count},
              {"name", Want::text},
              {"caught", Want::truth},
              {"property", Want::text},
              {"also", Want::texts},
              {"cases", Want::count},
              {"elements", Want::count},
              {"ranks", Want::count},
              {"steps", Want::count},
              {"evaluations", Want::count},
              {"seconds", Want::number},
              {"command", Want::text}});
        failure(row, where);
    }

    /// The value of a key that must be there and may be null.
    [[nodiscard]] const ordered_json& nullable(const ordered_json& object, const std::string& where,
                                               const std::string& key) const {
        const auto found = object.find(key);
        if (found == object.end())
            throw malformed(where + " has no '" + key + "' (it may be null)");
        return *found;
    }

    void failure(const ordered_json& row, const std::string& of) const {
        const ordered_json& failure = nullable(row, of, "failure");
        if (failure.is_null())
            return;
        const std::string where = of + ".failure";
        keys(failure, where, {{"message", Want::text}, {"case", Want::text}, {"trace", Want::text}});
        if (const ordered_json& first = nullable(failure, where, "first"); !first.is_null())
            divergence(first, where + ".first");
        if (const ordered_json& drawing = nullable(failure, where, "drawing"); !drawing.is_null())
            picture(drawing, where + ".drawing");
    }

    void divergence(const ordered_json& first, const std::string& where) const {
        keys(first, where,
             {{"step", Want::count},
              {"phase", Want::text},
              {"result", Want::text},
              {"rank", Want::whole},
              {"tensor", Want::text},
              {"index", Want::whole},
              {"coordinate", Want::whole},
              {"expected", Want::text},
              {"actual", Want::text},
              {"expected_bits", Want::text},
              {"actual_bits", Want::text},
              {"near", Want::list}});
        each(first["near"], where + ".near", [this](const ordered_json& value, const std::string& place) {
            keys(value, place,
                 {{"coordinate", Want::count},
                  {"expected", Want::text},
                  {"actual", Want::text},
                  {"expected_bits", Want::text},
                  {"actual_bits", Want::text},
                  {"ok", Want::truth}});
        });
    }

    void picture(const ordered_json& drawing, const std::string& where) const {
        keys(drawing, where,
             {{"size", Want::count},
              {"workers", Want::count},
              {"step", Want::count},
              {"tensors", Want::list},
              {"segments", Want::list},
              {"ranks", Want::list}});
        const auto size = drawing["size"].get<std::uint64_t>();
        each(drawing["tensors"], where + ".tensors",
             [&](const ordered_json& tensor, const std::string& place) {
                 keys(tensor, place, {{"name", Want::text}, {"always_dense", Want::truth}});
                 range(tensor, place, size);
             });
        each(drawing["segments"], where + ".segments",
             [&](const ordered_json& segment, const std::string& place) {
                 keys(segment, place, {{"owner", Want::count}});
                 range(segment, place, size);
             });
        if (drawing["ranks"].size() != drawing["workers"].get<std::uint64_t>())
            throw malformed(where + ": 'ranks' holds " + std::to_string(drawing["ranks"].size()) +
                            ", 'workers' says " + shown(drawing["workers"]));
        each(drawing["ranks"], where + ".ranks", [&](const ordered_json& rank, const std::string& place) {
            keys(rank, place, {{"gradient", Want::texts}});
            length(rank["gradient"], place + ".gradient", size);
            state(rank, place, size);
            if (const ordered_json& expected = nullable(rank, place, "expected"); !expected.is_null())
                state(expected, place + ".expected", size);
        });
    }

    void range(const ordered_json& piece, const std::string& where, std::uint64_t size) const {
        keys(piece, where, {{"begin", Want::count}, {"end", Want::count}});
        const auto begin = piece["begin"].get<std::uint64_t>();
        const auto end = piece["end"].get<std::uint64_t>();
        if (begin > end || end > size)
            throw malformed(where + " goes from " + std::to_string(begin) + " to " + std::to_string(end) +
                            ", which is no range within " + std::to_string(size) + " coordinates");
    }

    void length(const ordered_json& values, const std::string& where, std::uint64_t size) const {
        if (values.size() != size)
            throw malformed(where + " holds " + std::to_string(values.size()) + " values, not " +
                            std::to_string(size));
    }

    void state(const ordered_json& state, const std::string& where, std::uint64_t size) const {
        keys(state, where,
             {{"mask", Want::text},
              {"residual", Want::texts},
              {"moment", Want::texts},
              {"parameters", Want::texts}});
        const auto& mask = state["mask"].get_ref<const std::string&>();
        if (mask.size() != size || mask.find_first_not_of("01") != std::string::npos)
            throw malformed(where + ": 'mask' is " + shown(state["mask"]) + ", not " +
                            std::to_string(size) + " characters 0 and 1");
        for (const char* key : {"residual", "moment", "parameters"})
            length(state[key], where + "." + key, size);
    }

    /// A file that was cut or edited must not pass for a good one.
    void totals(const ordered_json& result) const {
        const std::pair<const char*, Status> all[] = {{"passed", Status::passed},
                                                      {"failed", Status::failed},
                                                      {"skipped", Status::skipped},
                                                      {"mistrusted", Status::mistrusted},
                                                      {"untested", Status::untested}};
        for (const auto& [key, status] : all) {
            keys(result["totals"], "totals", {{key, Want::count}});
            std::uint64_t found = 0;
            for (const char* list : {"rows", "properties"})
                for (const ordered_json& row : result[list])
                    found += row["status"] == name(status) ? 1U : 0U;
            if (result["totals"][key].get<std::uint64_t>() != found)
                throw malformed("totals: '" + std::string(key) + "' is " + shown(result["totals"][key]) +
                                ", but rows and properties hold " + std::to_string(found));
        }
    }

    std::string path_;
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
                                "give a result file, as --json of scape check writes it");
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        ordered_json result = ordered_json::parse(text, nullptr, false);
        if (result.is_discarded())
            throw checker.malformed("it is not JSON");
        checker.file(result);
        results.push_back(std::move(result));
    }
    return results;
}

} // namespace scape::report
