// Reads any text as the manifest of a checkpoint: it is refused with truestep::Error in one line,
// or written back the same. Requiring a fitting checksum would exclude almost every input, so each
// is tried once more with the right one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>

#include "manifest.hpp"

namespace {

using namespace truestep::distributed::scape;
using nlohmann::ordered_json;

constexpr Index model_size = 510;

void require(bool held, const char* promise) {
    if (!held) {
        std::fprintf(stderr, "broken: %s\n", promise);
        std::abort();
    }
}

std::optional<Manifest> parse(const std::string& text, Index size) {
    try {
        return parse_manifest(text, "manifest", size);
    } catch (const truestep::Error& error) {
        const std::string_view message = error.what();
        require(message.starts_with("manifest: "), "a message says where");
        require(std::ranges::all_of(message, [](char letter) { return letter >= ' ' && letter <= '~'; }),
                "a message is one line of printable ASCII");
        return std::nullopt;
    }
}

void read(const std::string& text, Index size) {
    const std::optional<Manifest> manifest = parse(text, size);
    if (!manifest)
        return;
    Index covered = 0;
    for (const Manifest::Rank& rank : manifest->ranks) {
        require(rank.range.begin == covered && rank.range.end >= covered, "ranges follow one another");
        covered = rank.range.end;
    }
    require(covered == size && manifest->step >= 0, "the ranges cover the model");
    require(text == ordered_json::parse(text).dump(1) + "\n", "the text is as it was written");
    require(parse(manifest_text(*manifest, "again"), size) == manifest,
            "what is written reads back the same");
}

/// The end of the last rank, or any other number.
Index size_in(const ordered_json& json) {
    if (!json.contains("ranks") || !json["ranks"].is_array() || json["ranks"].empty())
        return model_size;
    const ordered_json& last = json["ranks"].back();
    return last.is_object() && last.contains("end") && last["end"].is_number_integer()
               ? last["end"].get<Index>()
               : model_size;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(data, data + size);
    read(text, model_size);

    // The reader must withstand deep nesting; here it would break the dump.
    bool deep = false;
    const auto watch = [&](int depth, ordered_json::parse_event_t, const ordered_json&) {
        deep = deep || depth > 50;
        return !deep;
    };
    ordered_json json = ordered_json::parse(text, watch, false);
    if (deep || !json.is_object())
        return 0;
    json.erase("checksum");
    json["checksum"] = checksum(json.dump());
    read(json.dump(1) + "\n", size_in(json));
    return 0;
}
