// Writes and parses the manifest of a SCAPE checkpoint, with checksums of the ranks' files.
#include "manifest.hpp"

#include <array>
#include <bit>
#include <cstdio>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>

namespace truestep::distributed::scape {

namespace {

using nlohmann::ordered_json;

/// The deepest nesting of lists and objects that manifest_text writes. The text is written again
/// for its checksum, by a recursion whose depth the file must not choose.
constexpr int deepest = 3;

std::string as_written(const ordered_json& json) {
    return json.dump(1) + "\n";
}

} // namespace

std::string rank_file(std::size_t rank) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "rank-%04zu.safetensors", rank);
    return text.data();
}

std::uint64_t checksum(const std::string& text) {
    std::uint64_t sum = 0x9ae1'6a3b'2f90'404fU;
    for (const char letter : text)
        sum = std::rotl((sum ^ static_cast<unsigned char>(letter)) * 0x9e37'79b9'7f4a'7c15U, 27);
    return sum;
}

std::string manifest_text(const Manifest& manifest, const std::string& description) {
    ordered_json json{{"format", checkpoint_format},
                      {"version", checkpoint_version},
                      {"step", manifest.step},
                      {"model", manifest.model},
                      {"description", description}};
    for (std::size_t rank = 0; rank < manifest.ranks.size(); ++rank)
        json["ranks"].push_back({{"file", rank_file(rank)},
                                 {"begin", manifest.ranks[rank].range.begin},
                                 {"end", manifest.ranks[rank].range.end},
                                 {"bytes", manifest.ranks[rank].file.bytes},
                                 {"checksum", manifest.ranks[rank].file.checksum}});
    json["checksum"] = checksum(json.dump());
    return as_written(json);
}

Manifest parse_manifest(const std::string& text, const std::string& path, Index size) {
    const auto damaged = [&](const std::string& what) {
        return Error(path + ": " + what + "; give the path of a complete checkpoint");
    };
    const auto watch = [&](int depth, ordered_json::parse_event_t event, const ordered_json&) {
        const bool opens = event == ordered_json::parse_event_t::object_start ||
                           event == ordered_json::parse_event_t::array_start;
        if (opens && depth >= deepest)
            throw damaged("it is damaged");
        return true;
    };
    // The library's conversion would accept a fraction too, and is undefined for values out of
    // range.
    const auto whole = [&](const ordered_json& value) {
        if (!value.is_number_unsigned())
            throw damaged("it is damaged");
        return value.get<std::uint64_t>();
    };
    const auto index = [&](const ordered_json& value) { return static_cast<Index>(whole(value)); };
    try {
        auto json = ordered_json::parse(text, watch);
        if (json.at("format") != checkpoint_format || json.at("version") != checkpoint_version)
            throw damaged("it is not a manifest of a scape-checkpoint of version 1");
        const auto written = whole(json.at("checksum"));
        // The checksum does not see white space, the spelling of numbers, or repeated keys.
        if (text != as_written(json))
            throw damaged("it is damaged or was edited");
        json.erase("checksum");
        if (written != checksum(json.dump()))
            throw damaged("it is damaged: its checksum is not its text's");
        Manifest manifest{index(json.at("step")), whole(json.at("model")), {}};
        Index covered = 0;
        for (const auto& entry : json.at("ranks")) {
            Manifest::Rank rank{{index(entry.at("begin")), index(entry.at("end"))},
                                {whole(entry.at("bytes")), whole(entry.at("checksum"))}};
            if (entry.at("file") != rank_file(manifest.ranks.size()) || rank.range.begin != covered ||
                rank.range.end < covered)
                throw damaged("its ranks are not in order");
            covered = rank.range.end;
            manifest.ranks.push_back(rank);
        }
        if (covered != size || manifest.ranks.empty() || manifest.step < 0)
            throw damaged("its ranks do not cover a model of " + std::to_string(size) + " parameters");
        return manifest;
    } catch (const nlohmann::json::exception&) {
        throw damaged("it is damaged");
    }
}

} // namespace truestep::distributed::scape
