// Reads the file of fingerprints that a rank writes line by line while it trains.
#include <truestep/trace/rank_fingerprints.hpp>

#include <fstream>
#include <set>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/trace/config.hpp>

namespace truestep::trace {

namespace {

constexpr const char* format_of_prints = "scape-fingerprints";
constexpr std::size_t digits = 16; ///< of one fingerprint

Error unreadable(const std::filesystem::path& path) {
    return Error(path.string() + ": cannot be read; check that it is there and yours to read");
}

/// The begin of an error, such as "fingerprints.prints, line 7".
std::string at_line(const std::filesystem::path& path, Index number) {
    return path.string() + ", line " + std::to_string(number);
}

std::vector<std::string> texts(const nlohmann::json& list, const std::string& what) {
    std::vector<std::string> all;
    std::set<std::string> known;
    for (const nlohmann::json& entry : list) {
        if (!entry.is_string() || !known.insert(entry.get<std::string>()).second)
            throw Error(what + " is not a list of different names");
        all.push_back(entry.get<std::string>());
    }
    return all;
}

int small(ObjectReader& object, const std::string& key, const std::string& what, Index least, Index most) {
    const Index value = object.integer(key);
    if (value < least || value > most)
        throw Error(what + ": " + key + " is " + std::to_string(value) + "; it is from " +
                    std::to_string(least) + " to " + std::to_string(most));
    return static_cast<int>(value);
}

void read_head(RankFingerprints& prints, const std::string& line, const std::string& what) {
    const nlohmann::json json = parse_json(line, what);
    ObjectReader head(json, what);
    if (const std::string format = head.text("format"); format != format_of_prints)
        throw Error(what + ": its format is '" + one_line(format) + "'; this tool reads " +
                    format_of_prints);
    if (const std::string version = head.text("version"); version != "1")
        throw Error(what + ": its version is '" + one_line(version) + "'; this tool reads version 1");
    prints.source = head.text("source");
    constexpr Index most_workers = 1'000'000;
    prints.workers = small(head, "workers", what, 1, most_workers);
    prints.rank = small(head, "rank", what, 0, prints.workers - 1);
    for (const nlohmann::json& entry : head.list("tensors")) {
        ObjectReader tensor(entry, what + ", tensors");
        prints.tensors.push_back({tensor.text("name"), tensor.integer("size"), false});
        tensor.finish();
    }
    for (const std::string& name : texts(head.list("results"), what + ": results")) {
        if (name == "step" || name == "learning_rate")
            throw Error(what + ": a result is called '" + name +
                        "', which is a reserved word of a line; give it another name");
        prints.results.push_back({name, false});
    }
    for (const std::string& name : texts(head.list("replicated"), what + ": replicated")) {
        bool known = false;
        for (RankFingerprints::Result& result : prints.results)
            if (result.name == name)
                known = result.same = true;
        if (!known)
            throw Error(what + ": replicated names '" + one_line(name) +
                        "', which is not among the results");
    }
    head.finish();
    if (prints.tensors.empty() || prints.results.empty())
        throw Error(what + ": it names no " + (prints.tensors.empty() ? "tensors" : "results") +
                    ", so there is nothing to compare");
}

std::vector<std::uint64_t> fingerprints_in(const std::string& text, std::size_t count,
                                           const std::string& what) {
    if (text.size() != count * digits)
        throw Error(what + " has " + std::to_string(text.size()) + " digits; " + std::to_string(count) +
                    " tensors have " + std::to_string(count * digits));
    std::vector<std::uint64_t> all(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto value =
            parse_number<std::uint64_t>(std::string_view(text).substr(i * digits, digits), 16);
        if (!value)
            throw Error(what + ": the entry of tensor " + std::to_string(i) + " is not hexadecimal");
        all[i] = *value;
    }
    return all;
}

RankFingerprints::Step step_in(const RankFingerprints& prints, const std::string& line,
                               const std::string& what) {
    const nlohmann::json json = parse_json(line, what);
    ObjectReader object(json, what);
    RankFingerprints::Step step;
    step.step = object.integer("step");
    const Index last = prints.steps.empty() ? 0 : prints.steps.back().step;
    if (step.step <= last)
        throw Error(what + ": step " + std::to_string(step.step) + " after step " + std::to_string(last) +
                    "; steps ascend, from 1");
    step.learning_rate = object.number("learning_rate");
    for (const RankFingerprints::Result& result : prints.results)
        step.of.push_back(
            fingerprints_in(object.text(result.name), prints.tensors.size(), what + ": " + result.name));
    object.finish();
    return step;
}

} // namespace

bool holds_prints(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    // A safetensors file begins with the eight bytes of a length, whose last bytes are zero.
    const std::string begin = std::string("{\"format\":\"") + format_of_prints;
    std::string found(begin.size(), '\0');
    file.read(found.data(), static_cast<std::streamsize>(found.size()));
    return file && found == begin;
}

RankFingerprints read_prints(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw unreadable(path);
    RankFingerprints prints;
    prints.path = path;
    std::string line;
    for (Index number = 1; std::getline(file, line); ++number) {
        // A line without an end was being written when the program died; all lines before it are
        // complete.
        if (file.eof()) {
            prints.torn = true;
            break;
        }
        if (number == 1)
            read_head(prints, line, at_line(path, number));
        else
            prints.steps.push_back(step_in(prints, line, at_line(path, number)));
    }
    if (file.bad())
        throw unreadable(path);
    if (prints.results.empty())
        throw Error(path.string() + ": it ends before its first line does; there is nothing in it");
    return prints;
}

} // namespace truestep::trace
