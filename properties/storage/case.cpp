// Declares the settings of a case of files, and derives from them what the files hold.
#include <algorithm>
#include <array>
#include <cstring>

#include <nlohmann/json.hpp>

#include <truestep/problem/partition.hpp>

#include "storage.hpp"

namespace truestep::properties::storage {

namespace {

/// The format's own names.
constexpr std::array<const char*, 13> type_names{"BOOL", "U8",  "I8",  "U16", "I16", "F16", "BF16",
                                                 "U32",  "I32", "F32", "U64", "I64", "F64"};
constexpr std::array<std::uint64_t, 13> type_sizes{1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8};

/// Letters that JSON has to escape, of several bytes, and plain ones.
std::string text_of(const Case& run, For use, std::uint64_t which) {
    constexpr std::array<const char*, 10> letters{"w",  "layer.", "\"", "\\", "\n",
                                                  "\t", "é",      "𝄞",  "/",  "\x7f"};
    std::string text;
    for (std::uint64_t left = run.random(use, {which}) % 4; left > 0; --left)
        text += letters[run.random(use, {which, left}) % letters.size()];
    return text;
}

std::string random_bytes(const Case& run, std::uint64_t tensor, std::uint64_t version, std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
        const std::uint64_t word = run.random(For::values, {version, tensor, at});
        std::memcpy(bytes.data() + at, &word, std::min(sizeof word, size - at));
    }
    return bytes;
}

Tensor tensor_of(const Case& run, std::uint64_t number, std::uint64_t version) {
    Tensor tensor;
    tensor.name = text_of(run, For::names, number) + std::to_string(number);
    const std::size_t type = run.random(For::types, {version, number}) % type_sizes.size();
    tensor.type = static_cast<DataType>(type);
    // A quarter is as large as it may be, a quarter is one value, and the rest is small.
    const std::uint64_t drawn = run.random(For::shapes, {version, number});
    const std::uint64_t most = static_cast<std::uint64_t>(run.bytes) / type_sizes[type];
    const std::uint64_t columns = 1 + (drawn >> 8U) % 3;
    std::uint64_t count = 1;
    if (drawn % 4 > 0) {
        const std::uint64_t rows =
            drawn % 4 == 1 ? most / columns : (drawn >> 16U) % (std::min<std::uint64_t>(most, 9) + 1);
        tensor.shape = {rows, columns};
        count = rows * columns;
    }
    tensor.bytes = random_bytes(run, number, version, count * type_sizes[type]);
    return tensor;
}

} // namespace

const gate::CaseSpec<Case>& spec() {
    using gate::from_to;
    using gate::number;
    using gate::one_of;
    constexpr Index most = 1'000'000;
    static const gate::CaseSpec<Case> all{
        .settings =
            {number("tensors", &Case::tensors, 0, most)
                 .draws(from_to<Index>(0, 9), &Case::tensors)
                 .asked("numbers of tensors in a file", {"several tensors"})
                 .always(),
             number("workers", &Case::workers, 1, problem::most_workers)
                 .draws(from_to<Index>(1, 12), &Case::workers)
                 .asked("numbers of ranks whose files are a checkpoint")
                 .in_rows({"1", "2", "12"})
                 .always(),
             number("bytes", &Case::bytes, 0, 100 * most)
                 .draws(one_of<Index>({8, 0, 1, 24, 96, 511, 513, 4095, 4104, 66'000}), &Case::bytes)
                 .asked("sizes of the largest tensor, in bytes")
                 .always(),
             number("words", &Case::words, 0, most).draws(from_to<Index>(0, 4), &Case::words).always(),
             number("piece", &Case::piece, 0, most)
                 .draws(one_of<Index>({0, 1, 7, 512, 4096}), &Case::piece)
                 .asked("how many bytes one read or write takes at most; 0: all", {"in pieces"})
                 .in_rows({"0", "1", "7", "4096"})
                 .always(),
             number("links", &Case::links, 0, 30)
                 .draws(from_to<Index>(0, 5), &Case::links)
                 .asked("numbers of links on the way to a file", {"through links"})
                 .always(),
             number("seed", &Case::seed, 0, most).draws(from_to<Index>(1, 999), &Case::seed).always()},
        .own_key = "tensors",
        .fits_drawn =
            [](Case& run) { // a case takes less than a second
                if (run.piece == 1)
                    run.bytes = std::min<Index>(run.bytes, 600);
            },
        .columns = {"workers", "piece"},
        .most_workers = [](const Case& run) { return static_cast<int>(run.workers); }};
    return all;
}

std::uint64_t Case::random(For use, std::initializer_list<std::uint64_t> places) const {
    return gate::random_number(seed, static_cast<std::uint64_t>(use), places);
}

Content content_of(const Case& run, std::uint64_t version) {
    Content content;
    for (std::uint64_t word = 0; word < static_cast<std::uint64_t>(run.words); ++word)
        content.words[text_of(run, For::words, word)] =
            text_of(run, For::words, 1000 * (version + 1) + word);
    for (std::uint64_t number = 0; number < static_cast<std::uint64_t>(run.tensors); ++number)
        content.tensors.push_back(tensor_of(run, number, version));
    return content;
}

nlohmann::ordered_json header_of(const Content& content) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!content.words.empty())
        header["__metadata__"] = content.words;
    std::size_t begin = 0;
    for (const Tensor& tensor : content.tensors) {
        nlohmann::ordered_json& entry = header[tensor.name];
        entry["dtype"] = type_names[static_cast<std::size_t>(tensor.type)];
        entry["shape"] = tensor.shape;
        entry["data_offsets"] = {begin, begin + tensor.bytes.size()};
        begin += tensor.bytes.size();
    }
    return header;
}

std::string file_around(const std::string& header, const Content& content) {
    std::string bytes;
    for (std::size_t byte = 0; byte < 8; ++byte)
        bytes += static_cast<char>(header.size() >> (8 * byte) & 0xFFU);
    bytes += header;
    for (const Tensor& tensor : content.tensors)
        bytes += tensor.bytes;
    return bytes;
}

void save(FileSystem& files, const Path& path, const Content& content) {
    truestep::storage::SafetensorsWriter writer(path, content.words, files);
    for (const Tensor& tensor : content.tensors)
        writer.declare(tensor.name, tensor.type, tensor.shape);
    for (const Tensor& tensor : content.tensors)
        writer.write(tensor.name, tensor.type, std::as_bytes(std::span(tensor.bytes)));
    writer.finish();
}

} // namespace truestep::properties::storage
