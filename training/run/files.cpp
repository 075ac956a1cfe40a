// What is read and written: a text's bytes, and curves as JSON.
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include <scape/problem/error.hpp>
#include <scape/training/run.hpp>

#include "json.hpp"

namespace scape::training {

namespace {

using Json = nlohmann::ordered_json;

std::vector<std::uint8_t> bytes_in(const std::filesystem::path& path) {
    if (std::filesystem::is_directory(path))
        throw Error(path.string() + " is a folder; give a file of text");
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw Error("cannot read " + path.string() + ": " + std::strerror(errno) + "; give a file of text");
    std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    if (file.bad())
        throw Error("cannot read " + path.string() + " to its end; give a file of text");
    return bytes;
}

Json curve_json(const Curve& curve) {
    return {{"optimizer", curve.optimizer}, {"seed", curve.seed}, {"points", json_of(curve.points)}};
}

Json text_json(const Text& text) {
    Json json{{"name", text.name},
              {"symbols", text.symbols},
              {"learned", text.learned.size()},
              {"measured", text.measured.size()}};
    json["entropy"] = text.entropy ? Json(*text.entropy) : Json();
    return json;
}

} // namespace

Text read_bytes(const std::filesystem::path& path) {
    const std::vector<std::uint8_t> bytes = bytes_in(path);
    std::array<bool, 256> there{};
    for (const std::uint8_t byte : bytes)
        there[byte] = true;
    std::array<std::uint8_t, 256> symbol{};
    Text text;
    text.name = path.string();
    for (std::size_t byte = 0; byte < there.size(); ++byte)
        if (there[byte])
            symbol[byte] = static_cast<std::uint8_t>(text.symbols++);
    const std::size_t learned = bytes.size() - bytes.size() / 10;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        (i < learned ? text.learned : text.measured).push_back(symbol[bytes[i]]);
    return text;
}

void write_curves(const std::filesystem::path& path, const Text& text, const Plan& plan,
                  const std::vector<Curve>& curves) {
    Json json{{"text", text_json(text)}, {"plan", json_of(plan, text.symbols)}, {"curves", Json::array()}};
    for (const Curve& curve : curves)
        json["curves"].push_back(curve_json(curve));
    // A name may hold any bytes; JSON does not.
    const std::string written = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    const std::filesystem::path partial = path.string() + ".partial";
    std::error_code error;
    if (std::ofstream file(partial, std::ios::binary); !(file << written << std::flush))
        throw Error("cannot write " + path.string() + "; is there such a folder, with room?");
    std::filesystem::rename(partial, path, error);
    if (error)
        throw Error("cannot write " + path.string() + ": " + error.message());
}

} // namespace scape::training
