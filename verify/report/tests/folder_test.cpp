// Tests that a full disk never leaves a partial report, and how links and devices are written.
#include <truestep/report/folder.hpp>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sys/resource.h>

#include "page_support.hpp"
#include "support.hpp"

namespace truestep::report {
namespace {

namespace fs = std::filesystem;
using verify::scape::support::contains;
using verify::scape::support::error_of;
using verify::scape::support::store;
using verify::scape::support::TemporaryFolder;

/// Imitates a disk that is full after this many bytes of a file.
class SmallDisk {
  public:
    explicit SmallDisk(rlim_t bytes) {
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit less{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &less);
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    ~SmallDisk() {
        setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

  private:
    rlimit before_{};
    void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN); // then it is an error, like that of a disk
};

class WrittenFolder : public testing::Test {
  protected:
    [[nodiscard]] std::string text_of(const std::string& name) const {
        std::ifstream file(folder_ / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    [[nodiscard]] std::size_t files() const {
        return static_cast<std::size_t>(
            std::distance(fs::directory_iterator(folder_ / ""), fs::directory_iterator()));
    }
    [[nodiscard]] std::string path_of(const std::string& name) const { return (folder_ / name).string(); }

    TemporaryFolder folder_;
};

TEST_F(WrittenFolder, AFullDiskLeavesNoHalfOfAPage) {
    const std::string error = [&] {
        const SmallDisk room(4096);
        return error_of([&] { write_text(path_of("index.html"), std::string(100'000, 'x')); });
    }();
    EXPECT_TRUE(contains(error, "index.html: the report could not be written")) << error;
    EXPECT_EQ(files(), 0U);
}

TEST_F(WrittenFolder, AFullDiskLeavesTheResultThatWasThere) {
    write_json(path_of("results.json"), {{"before", true}});
    const std::string before = text_of("results.json");
    const std::string error = [&] {
        const SmallDisk room(4096);
        return error_of([&] { write_json(path_of("results.json"), std::string(100'000, 'x')); });
    }();
    EXPECT_TRUE(contains(error, "results.json: the result could not be written")) << error;
    EXPECT_EQ(text_of("results.json"), before);
    EXPECT_EQ(files(), 1U);
}

TEST_F(WrittenFolder, AFolderIsWrittenWholeOverAnOlderOne) {
    store(folder_ / "index.html", "an older one");
    write_folder(path_of(""), {result({row()})});
    EXPECT_TRUE(text_of("index.html").ends_with("</html>\n"));
    EXPECT_TRUE(contains(text_of("junit.xml"), "</testsuites>"));
    EXPECT_EQ(files(), 2U);
}

TEST_F(WrittenFolder, AnIndexHasARowForEachRunAndLinksToItsPage) {
    fs::create_directories(folder_ / "mondays");
    fs::create_directories(folder_ / "tuesdays");
    store(folder_ / "mondays" / "index.html", "its page");
    const auto good = result({row()}, {property()});
    const auto bad = result({row("FAILED")});
    write_index(path_of("all"),
                {folder_ / "mondays" / "results.json", folder_ / "tuesdays" / "results.json"}, {good, bad});
    const std::string page = text_of("all/index.html");
    expect_well_formed(page);
    EXPECT_TRUE(contains(page, "1 of 2 runs did not pass"));
    EXPECT_TRUE(contains(page, "href=\"../mondays/index.html\""));
    EXPECT_TRUE(contains(page, "href=\"../tuesdays/results.json\"")); // it has no page
    EXPECT_TRUE(contains(page, "1 of 1 row failed")) << page;
    write_index(path_of("all"), {folder_ / "mondays" / "results.json"}, {good});
    EXPECT_TRUE(contains(text_of("all/index.html"), "The run passed"));
    EXPECT_TRUE(contains(text_of("all/junit.xml"), "</testsuites>"));
}

TEST_F(WrittenFolder, ALinkStaysOne) {
    store(folder_ / "there.json", "an older one");
    fs::create_symlink("there.json", folder_ / "link.json");
    write_json(path_of("link.json"), 1);
    EXPECT_TRUE(fs::is_symlink(folder_ / "link.json"));
    EXPECT_EQ(text_of("there.json"), "1\n");
}

TEST_F(WrittenFolder, ADeviceIsWrittenAsItIs) {
    EXPECT_TRUE(can_be_written("/dev/null"));
    write_json("/dev/null", 1);
    EXPECT_FALSE(fs::is_regular_file("/dev/null"));
    EXPECT_TRUE(
        contains(error_of([] { write_text("/dev/full", "x"); }), "/dev/full: the report could not be"));
}

TEST_F(WrittenFolder, WhatCannotBeWrittenIsSaidBefore) {
    EXPECT_FALSE(can_be_written(path_of("missing/results.json")));
    EXPECT_TRUE(can_be_written(path_of("results.json")));
    EXPECT_EQ(files(), 0U);
}

} // namespace
} // namespace truestep::report
